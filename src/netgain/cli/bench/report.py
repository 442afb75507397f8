"""`netgain bench report`."""

from pathlib import Path
from typing import Annotated

import typer

from netgain.cli.bench import options


def report(
    records: Annotated[Path, typer.Argument(help="A run's file, as --records names it.")],
    slo: options.Slo = None,
    warmup: options.Warmup = "auto",
    cooldown: options.Cooldown = "auto",
    as_tool: options.AsTool = None,
    skip_bad_lines: Annotated[
        bool, typer.Option(help="Leave lines out that cannot be read, and say so.")
    ] = False,
    csv: options.Csv = None,
    html: options.Html = None,
    as_json: options.AsJson = False,
    plot: options.Plot = False,
) -> None:
    """Make the report of a run again, from its records.

    With another service level, another trim or another tool's definitions, if wanted.

    Examples:

      netgain bench report run.jsonl --slo examples/slo.yaml --html run.html

      netgain bench report run.jsonl --as vllm
    """
    from netgain.cli.bench.choices import tool_of, trim_of
    from netgain.cli.bench.show import check_places, show, with_warnings, write_rows
    from netgain.lab.bench_report import report_of
    from netgain.lab.foreign.tools import as_tool as as_its_tool
    from netgain.lab.metrics.run_metrics import measure_run
    from netgain.lab.run_file import read_run
    from netgain.lab.slo_file import read_slo

    check_places(html, csv)
    tool = tool_of(as_tool)
    level = None if slo is None else read_slo(slo)
    found = read_run(records, skip_broken=skip_bad_lines)
    measured = measure_run(found.header, found.records, trim=trim_of(warmup, cooldown), slo=level)
    foreign = None if tool is None else as_its_tool(tool, found.header, found.records, level)
    warnings = []
    if found.end is None:
        warnings.append("The file does not say how the run ended: it was killed, or still runs.")
    if found.torn:
        warnings.append("The file's last line was cut off and is left out.")
    if found.skipped:
        lines = ", ".join(map(str, found.skipped[:10]))
        warnings.append(f"{len(found.skipped)} lines could not be read and are left out: {lines}.")
    made = with_warnings(report_of(measured, foreign, found.end), tuple(warnings))
    show(made, as_json=as_json, html=html, plot=plot)
    if csv is not None:
        write_rows(measured, csv)
