"""Can a claim be true, as a report."""

from netgain.cost.claim import Claim, Verdict, check_claim, described
from netgain.report.document import Basis, Column, Figure, Report, Section, Table


def plan_check(claim: Claim) -> tuple[Report, Verdict]:
    """The judgement and its arithmetic.

    Raises `ConfigurationError` for a claim that says too little to be checked.
    """
    judgement = check_claim(claim)
    rows = tuple(
        {
            "check": finding.name,
            "verdict": finding.verdict.word,
            "statement": finding.statement,
            "arithmetic": finding.arithmetic,
        }
        for finding in judgement.findings
    )
    columns = (
        Column("check", "Check"),
        Column("verdict", "Verdict"),
        Column("statement", "Because"),
        Column("arithmetic", "Arithmetic", "", Basis.ASSUMED),
    )
    worst = judgement.verdict
    decisive = [f for f in judgement.findings if f.verdict is worst]
    figure = Figure(
        "verdict", "Verdict", worst.word, "", Basis.ASSUMED,
        "; ".join(finding.arithmetic for finding in decisive),
        "floors: every weight read once at full bandwidth, every product at the dense peak",
    )  # fmt: skip
    report = Report(
        "Can it be true?",
        (
            Section(
                "What was checked",
                figures=(figure,),
                tables=(Table("findings", "Checks", columns, rows),),
            ),
        ),
        (f"{worst.word.capitalize()}: {decisive[0].statement}.",),
        tuple(claim.shape.notes if claim.shape else ()),
        dict(described(claim)),
    )
    return report, worst
