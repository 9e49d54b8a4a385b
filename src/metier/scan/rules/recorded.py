"""Recordings of people and their screens that are uploaded as they are made."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._asked_first import asks_first
from metier.scan.rules._passages import named_by_author, passages
from metier.scan.rules._pretexts import AGREED
from metier.scan.rules._reading import reading
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules.covert import SENT, SENT_MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_SENSED = (
    r"(?:microphone|mic\b|room|surroundings|ambient (?:sound|audio)|web ?cam|camera|(?:the |your )?(?:whole )?screen\b"
    r"|desktop|display|keystrokes|typing)"
)
_RECORDED = re.compile(
    rf"\b(?:record|capture|listen to|film|log|keep recording|start recording)\w{{0,3}}\b[^.;\n]{{0,40}}\b{_SENSED}"
    r"|\blistens? (?:all the time|constantly|always|in the background|permanently)\b|\b(?:audio|sound) (?:from"
    r"|of) the mic"
    r"|\b(?:keep|leave|hold|have)\b[^.;\n]{0,12}\b(?:microphone|mic|web ?cam|camera)\b[^.;\n]{0,12}\b(?:open|on"
    r"|running|live)\b"
    r"|\b(?:screen|microphone|audio|webcam|voice) recordings?\b|\bscreen ?shots?\b|\bscreencapture\b|\brec -q\b"
    r"|\barecord\b"
    r"|\bffmpeg\b[^\n]{0,80}(?:avfoundation|x11grab|pulse|dshow|gdigrab)|录(?:屏|音)|截(?:屏|图)|麦克风|摄像头"
    r"|запис\w{1,4} (?:экран|микрофон|звук)|скриншот|снимк\w{1,2} экрана|graba\w{0,3} (?:la pantalla|el micrófono)"
    r"|captura\w{0,2} de pantalla|bildschirm(?:foto|aufnahme)|mikrofon|capture\w{0,2} d['’]écran|micro(?:phone)?\b"
    r"|画面(?:録画|を録画)|スクリーンショット|マイク|화면 녹화|스크린샷|마이크"
)
_ON_AND_ON = re.compile(
    r"\b(?:every|each) (?:few |\d{1,3} |other |couple of |two |three |five |ten |fifteen |twenty |thirty "
    r"|sixty )?(?:seconds?|minutes?|hours?|turns?|tasks?|sessions?|steps?|messages?)\b"
    r"|\bwhile (?:the agent|you|they|the user|it) (?:\w{1,10} )?(?:works?|runs?|types?|talks?|is|are)\b"
    r"|\b(?:whole|entire|full|during the|throughout the|of the|for the|beginning of the"
    r"|start of the) (?:\w{1,8} )?(?:session"
    r"|day"
    r"|conversation|task)\b|\bin the background\b|\bcontinuous(?:ly)?\b|\bperiodic(?:ally)?\b|\balways\b"
    r"|\ball the time\b|\bconstantly\b|\bpermanently\b"
    r"|\bat all times\b"
    r"|\bquietly|\bsilently|\bwithout asking|\bno need to ask\b"
    r"|每(?:隔|次|\d)|后台|持续|кажд|в фоне|постоянно|cada \d|segundo plano|alle \d|hintergrund|toutes les|arrière-plan"
    r"|バックグラウンド|毎|백그라운드"
)
_MARKS = (
    "record", "screen", "mic", "webcam", "camera", "capture", "keystroke", "arecord", "ffmpeg", "rec -q", "录", "截",
    "麦克风", "摄像头", "запис", "скриншот", "экран", "graba", "pantalla", "bildschirm", "mikrofon", "écran", "画面",
    "スクリーン", "マイク", "화면", "스크린샷", "마이크",
)  # fmt: skip


def _uploaded(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("http") or not read.has(*_MARKS):
        return
    for passage in passages(read):
        if not any(one.places for one in passage) or not any(_sends(one, read) for one in passage):
            continue
        told = next((one for one in passage if _records(one, read)), None)
        if told is None or asks_first(passage):
            continue
        if any(_ON_AND_ON.search(one.low) for one in passage if is_spoken(one) and read.sees(one, _MARKS)):
            yield told.hit(told.text, "high")


def _records(one: Statement, read: SkillStatements) -> bool:
    if one.bad_company or one.kind == "row" or not read.sees(one, _MARKS):
        return False
    found = _RECORDED.search(one.low)
    return found is not None and not one.warns_of(found)


def _sends(one: Statement, read: SkillStatements) -> bool:
    if one.bad_company or not one.places or named_by_author((one,), read) < 1:
        return False
    if read.sees(one, SENT_MARKS) and SENT.search(one.text) is not None:
        return "@" in one.text or "files" in one.low
    return is_spoken(one) and _UPLOADS.search(one.low) is not None


_UPLOADS = re.compile(
    r"\b(?:upload|send|sent|post|stream|push|submit|transmit|forward)\w{0,3}\b|上传|发送|загруз|отправ|\bsub[ea]\b"
    r"|env[ií]"
    r"|lade\b"
    r"|hochlad|envo[iy]|télévers|アップロード|送信|업로드|전송"
)


_SAID = re.compile(
    r"\b(?:conversations?|transcripts?|dialogues?|chat (?:logs?|history)|messages? of the user"
    r"|user['’]?s? (?:messages?|prompts?"
    r"|questions?|inputs?)|everything that was said|what the user (?:said|wrote|typed|asked))\b"
    r"|\$\{?(?:user_?(?:message|prompt|input|msg|query)|conversation|transcript|chat_?log|last_?(?:message|prompt)"
    r"|messages)\b"
    r"|session\.jsonl?|对话|聊天记录|会话|переписк|диалог|conversaci[oó]n|gespräch|会話|대화",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"\b(?:every|each|after|end of|always|whenever|automatically)\b|每|之后|结束|кажд|после|в конце|cada|después"
    r"|al final|nach jed"
    r"|am ende|chaque|à la fin|毎|後|마다|후"
)
_FOR_US = re.compile(
    r"\bhelps? us\b|\b(?:users?|they) (?:have |has |already )?(?:agreed|consented|opted in)\b|\bby (?:installing"
    r"|using) (?:this|the)\b"
    r"|\bno (?:confirmation|consent|approval|permission|question)s? (?:is |are )?(?:required|needed|necessary|asked)\b"
)
_SAID_MARKS = (
    "conversation", "transcript", "dialog", "chat", "message", "prompt", "user", "session.json", "对话", "聊天", "会话",
    "переписк", "диалог", "conversaci", "gespräch", "会話", "대화",
)  # fmt: skip


def _overheard(view: SkillView) -> Iterator[Hit]:
    """What is said to the agent goes to an address each time, and that nobody is asked is part of the plan."""
    read = reading(view)
    if not read.has("http") or not read.has(*_SAID_MARKS):
        return
    for passage in passages(read):
        for index, one in enumerate(passage):
            if one.bad_company or not one.places or named_by_author((one,), read) < 1 or not _SAID.search(one.text):
                continue
            if not _hands_over(one, read):
                continue
            near = [other for other in passage[max(0, index - 2) : index + 4] if is_spoken(other)]
            agreed = any(AGREED.bidden(other) or _FOR_US.search(other.low) for other in near)
            if agreed and any(_AGAIN.search(other.low) for other in near) and not asks_first(near):
                yield one.hit(one.text, "high")
                break


def _hands_over(one: Statement, read: SkillStatements) -> bool:
    if read.sees(one, SENT_MARKS) and SENT.search(one.text) is not None:
        return True
    found = _UPLOADS.search(one.low) if is_spoken(one) else None
    return found is not None and not one.warns_of(found)


def _recorded(view: SkillView) -> Iterator[Hit]:
    yield from _uploaded(view)
    yield from _overheard(view)


RULES = (
    ScanRule(
        id="RECORDING_UPLOADED",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It records the screen or what is said, again and again, and uploads it.",
        hint="Do not use it. What is recorded is for the one who is recorded to share.",
        check=_recorded,
    ),
)
