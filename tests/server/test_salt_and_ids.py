"""Who shares prefixes with whom, and what requests are called."""

from netgain.ledger.record import LedgerRecord
from netgain.server.ledger_book import ClosedLedger, LedgerBook
from netgain.server.request_id import distinct, request_id
from netgain.server.salt import cache_salt

LEDGER = (ClosedLedger(LedgerRecord(()), 0, 1, None),)


def test_without_key_and_salt_everybody_shares() -> None:
    assert cache_salt(None, "") == ""


def test_salts_differ_by_key_and_by_client_salt() -> None:
    salts = {cache_salt(key, salt) for key in (None, "k", "l") for salt in ("", "a", "b")}
    assert len(salts) == 9


def test_the_salt_does_not_tell_the_key() -> None:
    assert "secret" not in cache_salt("secret", "")


def test_an_id_that_is_taken_gets_a_suffix_even_after_its_request_ended() -> None:
    book = LedgerBook(10)
    book.begin("mine")
    assert distinct("mine", book) != "mine"
    book.end("mine", LEDGER)
    assert distinct("mine", book).startswith("mine-")
    assert distinct("other", book) == "other"


def test_unusable_ids_are_replaced() -> None:
    for asked in (None, "", "a b", "x" * 200, "né", "a\nb"):
        assert request_id(asked) != asked
    assert request_id("my-own.id_1") == "my-own.id_1"


def test_the_oldest_ledgers_make_room() -> None:
    book = LedgerBook(2)
    for id_ in "abc":
        book.begin(id_)
        assert book.is_running(id_)
        book.end(id_, LEDGER)
    assert [book.get(id_) is not None for id_ in "abc"] == [False, True, True]
    assert not book.is_running("c")
