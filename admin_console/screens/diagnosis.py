"""The banner of a page: the gravest finding, whose sentence `admin_console/diagnosis` makes, and its remedies."""

from collections.abc import Sequence

from admin_console.diagnosis import pause_words, refusing, words
from admin_console.diagnosis.consumers_on_some import CONSUMERS_ON_SOME
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import DANGER, TONES, WARNING, Finding
from admin_console.diagnosis.old_messages import OLD_MESSAGES
from admin_console.diagnosis.paused import PAUSED
from admin_console.diagnosis.states import State
from admin_console.gateway.gateway import why_not
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import ActionCell, BaseCell, LinkCell
from admin_console.screens.links import act_cell, consumer_url, message_cell, node_url, url_of
from admin_console.screens.partial import listed
from admin_console.screens.parts import Banner
from admin_console.screens.pauses import by_node, paused_on, still_delivering, topic_paused
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

# The names of acts as the pages' own buttons have them.
_LABELS = {
    "pause_channel": "❚❚ Pause…",
    "unpause_channel": "▶ Resume…",
    "unpause_topic": "▶ Resume the topic…",
    "retry_channel": "Try again…",
    "retry_topic": "Try the topic again…",
    "requeue_channel": "Requeue in flight…",
    "release_deferred": "Release deferred…",
    "redrive_channel": "Redrive…",
    "quarantine_messages": "Quarantine the message…",
    "create_channel": "New channel…",
}


def channel_banner(live: LiveState, diagnosis: Diagnosis, role: Role) -> Banner | None:
    """The gravest state of a channel, since when it lasts, and its other states; None for a channel without any.

    A fault that the engine reports heads a channel of it without a graver finding of its own.
    """
    names = diagnosis.vitals.topic.topic_name, diagnosis.vitals.stats.channel_name
    broker = refusing.find_broker(live.snapshot) if _is_here(live, *names) else None
    if broker is not None and diagnosis.level < DANGER:
        also = [words.lower(state.finding.title.rstrip(".")) for state in diagnosis.states[:1]]
        return Banner(
            TONES[broker.level], _of_here(live, broker.title), broker.text, note=_note("", also), cause="engine"
        )
    if not diagnosis.states:
        return None
    gravest, *others = diagnosis.states
    finding = gravest.finding
    # A half sentence has no room for the time of its figures: only those of now.
    now = [other.finding for other in others if other.seen_s >= diagnosis.looked_s]
    also = [other.also for other in now if other.also and not _is_in_banner(other, diagnosis)]
    if broker is not None:
        also.append(words.lower(_of_here(live, broker.also)))
    title, text = finding.title, finding.text
    if finding.kind is PAUSED:
        title = _paused_on(live, diagnosis, title)
        text = " ".join(filter(None, (by_node(live, *names), text)))
    return Banner(
        TONES[finding.level],
        title,
        text,
        note=" ".join(filter(None, (_note(_when(gravest, diagnosis), also), _without(live, *names)))),
        acts=_acts(finding, diagnosis, role),
        cause=f"{finding.kind.name} {finding.client_name}{finding.message_id}",
    )


def _is_here(live: LiveState, topic: str, channel: str) -> bool:
    """Whether this server has the channel, so that its faults concern it."""
    return live.cluster is None or any(place.is_embedded for place in live.cluster.places(topic, channel))


def _of_here(live: LiveState, text: str) -> str:
    """In a cluster, words about this server's engine and disk name it: its figures stand beside those of all nodes."""
    return text if live.cluster is None else f"This server: {words.lower(text)}"


def _without(live: LiveState, topic: str, channel: str = "") -> str:
    """Whose part the figures lack."""
    silent = live.silent_of(topic, channel)
    return f"The figures are without {listed(silent)}." if silent else ""


def _paused_on(live: LiveState, diagnosis: Diagnosis, title: str) -> str:
    """The title, at which nodes of several it is paused, and which still deliver."""
    names = diagnosis.vitals.topic.topic_name, diagnosis.vitals.stats.channel_name
    where = paused_on(live, *names)
    if not where:
        return title
    return f"{title.replace('Paused', f'Paused{where} nodes', 1).partition(':')[0]}. {still_delivering(live, *names)}"


def _is_in_banner(other: Finding, diagnosis: Diagnosis) -> bool:
    """Whether the banner's own sentence already has the information of `other`: the age of the oldest message."""
    return other.kind is OLD_MESSAGES and words.depth(diagnosis.vitals) in diagnosis.states[0].finding.text


def _when(state: State, diagnosis: Diagnosis) -> str:
    """Since when a state lasts; and of when its figures are, while the newest ones do not show it."""
    if not state.finding.kind.begins_after_s:
        return ""
    begun = units.moment(int(state.begun_s * 1000))
    if state.seen_s >= diagnosis.looked_s:
        return f"Seen since {begun} UTC."
    return f"Seen from {begun} UTC to {units.moment(int(state.seen_s * 1000))} UTC; the figures are from that time."


def _note(since: str, also: Sequence[str]) -> str:
    return f"{since} Also: {'; '.join(also)}.".strip() if also else since


def _acts(finding: Finding, diagnosis: Diagnosis, role: Role) -> tuple[BaseCell, ...]:
    """The one act that is likely to help, and links to the consumer and the messages that the finding is about."""
    names = diagnosis.vitals.topic.topic_name, diagnosis.vitals.stats.channel_name
    acts: list[BaseCell] = []
    act, apart = finding.kind.act, diagnosis.vitals.apart
    if finding.kind is CONSUMERS_ON_SOME and apart is not None:
        acts.append(LinkCell(f"Open {apart.node}", node_url(apart.node)))
    if act == "redrive_channel":  # first an operator looks at the cause of their failures
        acts.append(LinkCell("Show the messages", f"{url_of('channel_messages', *names)}?state=quarantined"))
    if act == "quarantine_messages":
        acts.extend(_quarantine(finding, diagnosis, role))
    elif act == "requeue_channel" and finding.client_key < 0:
        pass  # at another node: this server requeues no part of the channel there
    elif act and not (act == "redrive_channel" and _is_redriving(diagnosis)):
        of_client = {"client": str(finding.client_key)} if act == "requeue_channel" and finding.client_key else None
        label = f"Requeue messages of {finding.client_name}…" if of_client else _LABELS[act]
        acts.append(act_cell(label, act, role, *(names[:1] if act.endswith("_topic") else names), query=of_client))
    if finding.message_id:
        acts.append(message_cell(*names, finding.message_id))
    if finding.client_key > 0:  # the others have no row of that name
        acts.append(LinkCell(f"Show {finding.client_name}", consumer_url(*names, finding.client_key)))
    return tuple(acts)


def _is_redriving(diagnosis: Diagnosis) -> bool:
    redrive = diagnosis.vitals.stats.redrive
    return redrive is not None and not redrive.ended


def _quarantine(finding: Finding, diagnosis: Diagnosis, role: Role) -> list[BaseCell]:
    """The act on the message that the finding is about; disabled, with the reason, where the topic can't."""
    if not finding.message_id:
        return []
    act, names = "quarantine_messages", (diagnosis.vitals.topic.topic_name, diagnosis.vitals.stats.channel_name)
    reason = why_not(act, diagnosis.vitals.topic.storage, *names)
    if reason:
        return [ActionCell(_LABELS[act], "", words.sentence(reason))]
    return [act_cell(_LABELS[act], act, role, *names, query={"id": finding.message_id})]


def overview_banner(live: LiveState, urgent: Sequence[Diagnosis], grave: int, role: Role) -> Banner | None:
    """The gravest problem of all, in one sentence with a link to its page and its act; None when all is well.

    urgent: the most urgent channels, in order; grave: how many channels have a state that needs an operator.
    """
    broker = refusing.find_broker(live.snapshot)
    if broker is not None:
        return Banner(TONES[broker.level], _of_here(live, broker.title), broker.text, cause="engine")
    engine = next(iter(live.engine_states), None)
    if engine is not None and not _is_graver(urgent, engine):
        found = engine.finding
        note = f"Seen since {units.moment(int(engine.begun_s * 1000))} UTC."
        title = _of_here(live, found.title)
        return Banner(TONES[found.level], title, found.text, note=note, cause=found.kind.name)
    if not urgent or urgent[0].level < WARNING:
        return None
    worst = urgent[0].vitals
    cause = channel_banner(live, urgent[0], role)
    if cause is None:
        return None
    also = f" Also: {words.lower(_of_here(live, engine.finding.also))}." if engine else ""
    # Not "below": the list there may have another filter, and has pages.
    more = (
        f" {units.plural(grave - 1, 'more channel')} {'needs' if grave == 2 else 'need'} attention."
        if grave > 1
        else ""
    )
    name = f"{worst.topic.topic_name}/{worst.stats.channel_name}"
    return Banner(
        cause.tone,
        f"{name}: {cause.title[0].lower()}{cause.title[1:]}",
        cause.text,
        url_of("channel", worst.topic.topic_name, worst.stats.channel_name),
        f"Open {name}",
        note=f"{cause.note}{also}{more}",
        acts=cause.acts,
        cause=f"{name} {cause.cause}",
    )


def _is_graver(urgent: Sequence[Diagnosis], engine: State) -> bool:
    """Whether the most urgent channel has something worse than the engine, which concerns all channels."""
    return bool(urgent) and urgent[0].level > engine.finding.level


def topic_banner(live: LiveState, name: str, role: Role) -> Banner | None:
    """The banner of a stopped topic: a fault, a pause, or no channel for its messages; with the act that helps."""

    def acts(act: str) -> tuple[BaseCell, ...]:
        return (act_cell(_LABELS[act], act, role, name),)

    topic = live.topics[name]
    depth = f"the depth at the topic itself is {units.number(topic.depth)}"
    if topic.fenced:
        return Banner(
            "danger",
            "Fenced: something failed in this topic, and it stopped.",
            f"{words.sentence(topic.fenced)} Publishes to it are refused, and {depth}; its channels deliver what "
            "they have. The server's log has the details. Press Try again when the cause is gone.",
            note=_without(live, name),
            acts=acts("retry_topic"),
        )
    if topic.unreadable:
        return Banner(
            "danger",
            "Not readable: the disk refuses something of this topic.",
            f"{words.sentence(topic.unreadable)} The server tries again by itself; everything else works.",
            acts=acts("retry_topic"),
        )
    if topic.paused:
        now_ms = live.snapshot.taken_at_ns // 1_000_000
        late = pause_words.overdue(topic.pause, topic.resume_refused, now_ms, live.snapshot.pause_limit_ms)
        sentences = (
            late,
            by_node(live, name),
            pause_words.details(topic.pause, now_ms),
            pause_words.grown(topic.pause, topic.depth),
        )
        return Banner(
            "warning" if late else "held",
            topic_paused(live, topic),
            " ".join(
                (
                    *filter(None, sentences),
                    f"{words.sentence(depth)} It is accepting messages; resume it to let them through.",
                )
            ),
            note=_without(live, name),
            acts=acts("unpause_topic"),
        )
    if not topic.channels and topic.depth:
        return Banner(
            "warning",
            "The topic has no channel: no consumer receives its messages.",
            f"{words.sentence(depth)} The first channel that is created gets them all.",
            note=_without(live, name),
            acts=acts("create_channel"),
        )
    return None
