"""What the server's log and the console say of damage."""

from queue_engine.storage.recovery_report import Damage


def test_damage_tells_how_many_messages_are_lost_as_far_as_that_is_known() -> None:
    assert Damage(100, 30, 7, 12, 3, "bodies are damaged").sentence() == (
        "Damage, 3 messages of topic number 7 lost, the bytes are in quarantine. "
        "30 bytes at position 100: bodies are damaged."
    )
    assert Damage(100, 30, 7, 12, 0, "damaged beside the bodies").sentence() == (
        "Damage, no message lost, the bytes are in quarantine. 30 bytes at position 100: damaged beside the bodies."
    )
    assert Damage(10, 30, 0, 0, None, "segments are missing at the end", kept="").sentence() == (
        "Damage, it can't be told how many messages are lost. 30 bytes at position 10: segments are missing at the end."
    )
    assert Damage(0, 0, 0, 0, 0, "holes.json is damaged", kept="it is set aside").sentence() == (
        "Damage, no message lost, it is set aside. holes.json is damaged."
    )
