"""What the server's log and the console say of damage."""

from queue_engine.storage.recovery_report import Damage, LostMessages


def test_damage_tells_which_messages_are_lost_as_far_as_that_is_known() -> None:
    lost = (LostMessages(7, 12, 15, 3, "orders"), LostMessages(9, 4, 5, 1))
    assert Damage(100, 30, "bodies are damaged", lost).sentence() == (
        "Damage, 4 messages lost: 3 of topic orders (offsets 12 to 14), 1 of topic number 9 (offset 4); "
        "the bytes are in quarantine. 30 bytes at position 100: bodies are damaged."
    )
    assert Damage(100, 30, "damaged beside the bodies").sentence() == (
        "Damage, no message lost; the bytes are in quarantine. 30 bytes at position 100: damaged beside the bodies."
    )
    assert Damage(10, 30, "segments are missing at the end", is_exact=False, action="").sentence() == (
        "Damage, the number of lost messages is unknown. 30 bytes at position 10: segments are missing at the end."
    )
    assert Damage(10, 30, "segments are missing", lost[1:], is_exact=False, action="").sentence() == (
        "Damage, at least 1 message lost: 1 of topic number 9 (offset 4). "
        "30 bytes at position 10: segments are missing."
    )
    assert Damage(0, 0, "holes.json is damaged", action="it is set aside").sentence() == (
        "Damage, no message lost; it is set aside. holes.json is damaged."
    )


def test_of_many_topics_the_first_are_named() -> None:
    lost = tuple(LostMessages(number, 0, 2, 2, f"t{number}") for number in range(12))
    sentence = Damage(10, 30, "segments are missing", lost, action="").sentence()
    assert sentence.startswith("Damage, 24 messages lost: 2 of topic t0 (offsets 0 to 1), 2 of topic t1 ")
    assert sentence.endswith(" 2 of topic t9 (offsets 0 to 1), 4 more. 30 bytes at position 10: segments are missing.")
