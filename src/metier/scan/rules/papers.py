"""Private papers that leave the machine: more than the one document that the user named, or unasked.

A service that reads documents gets the one that it is asked about. One that has an agent go through the folders of a
home for contracts, scans of passports and statements of banks wants the papers, whatever it is called.
"""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._asked_first import asks_first
from metier.scan.rules._passages import named_by_author, passages
from metier.scan.rules._pretexts import AGREED
from metier.scan.rules._reading import reading
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules.covert import SENT, SENT_MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._passages import Passage
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_INTIMATE = re.compile(
    r"\bpassports?\b|\b(?:id|identity|identification) (?:scans?|cards?|cop(?:y|ies)|documents?|papers|pictures?)\b"
    r"|\bscans? of (?:\w{1,12} ){0,2}(?:ids?|identity|passports?|licen[cs]es?)\b|\bdriver['’]?s['’]? licen[cs]es?\b"
    r"|\b(?:bank|account|brokerage|credit card|card) statements?\b|\bpay ?(?:slips?|stubs?)\b|\btax (?:returns?|papers"
    r"|documents?|forms?|letters?)\b|\b(?:w-?2s?|1099s?|1040s?)\b|\b(?:medical|health|patient) (?:records?|reports?"
    r"|files?)\b|\blab results?\b|\bdoctor['’]?s['’]? letters?\b|\bprescriptions?\b|\binsurance (?:polic(?:y|ies)"
    r"|papers|cards?)\b|\bbirth certificates?\b|\bsocial security cards?\b"
    r"|\bmbox\b|\b(?:whole|entire|last \d{1,5}) (?:inbox|mailbox|e?-?mails?|messages)\b|\baddress book\b"
    r"|\bphoto library\b"
    r"|\bbrows(?:er|ing) history\b|\bphone ?book\b"
    r"|身份证|护照|银行(?:对账单|流水|账单)|工资(?:单|条)|病历|税单|驾照|паспорт|выписк|справк|медицинск|водительск"
    r"|\bdni\b|pasaporte|extractos? bancarios?|nómina|declaración de la renta|historial médico|ausweis|reisepass"
    r"|kontoausz|steuer(?:bescheid|erklärung|unterlagen)|gehaltsabrechnung|arztbrief|pièces? d['’]identité|passeport"
    r"|relevés? (?:bancaires?|de compte)|fiches? de paie|extratos? bancários?|passaporte|carteira de identidade"
    r"|estratti conto|carta d['’]identità|パスポート|身分証|銀行明細|여권|신분증"
)
"""Papers that nobody hands to a stranger."""
_PAPERS = re.compile(
    r"\b(?:contracts?|agreements?|ndas?|invoices?|receipts?|leases?|deeds?|letters?|cvs?|resum[eé]s?|pdfs?"
    r"|documents?|papers|files?|docx?|spreadsheets?|scans?|photos?|pictures)\b"
    r"|合同|发票|文档|文件|договор|документ|contratos?|facturas?|documentos?|archivos?|verträge?|rechnungen|dokumente?"
    r"|contrats?|factures?|fichiers?|契約書|書類|계약서|문서"
)
_HOME = re.compile(
    r"(?:~|\$home|%userprofile%|\$\{home\}|/users/\S{1,30}|/home/\S{1,30})[/\\](?:documents|downloads|desktop|pictures"
    r"|onedrive|dropbox|icloud|documentos|dokumente|descargas|téléchargements)\b|path\.home\(\)|expanduser\("
    r"|homedir\(\)"
    r"|\b(?:documents|downloads|desktop|home) (?:folders?|director(?:y|ies))\b|\b(?:below|under|in) (?:the |your "
    r"|their )?"
    r"home\b|“文档”|文档(?:文件夹|目录)|下载(?:文件夹|目录)|桌面|папк\w{1,2} «?(?:документ|загруз)|рабоч\w{2,3} стол"
)
"""Folders of a home, where everything lies that somebody keeps."""
_MANY = re.compile(
    r"\b(?:all|every|each|any|whatever|everything|whichever|entire|whole)\b|\bfor \w{1,12} in\b|\*\.(?:pdf|docx?|jpe?g"
    r"|png|xlsx?)|/\*\*|\bfind\s+[~$/]|\btar\b|\bzip\b|\b(?:find|found|scan|search|look)\w{0,3}\b|\bglob\b"
    r"|所有|全部|每个|все\b|всех|кажд|todos?\b|todas?\b|encuentr|alle\b|jede|tous\b|toutes\b|chaque|tutti|すべて|모든"
)
_MORE = re.compile(
    r"\b(?:others?|more|related|similar|neighbou?ring|sibling|remaining|further|additional|also|rest of the"
    r"|surrounding)\b"
    r"[^.;\n]{0,60}\b(?:same (?:folder|directory|place)|next to (?:it|them)|beside (?:it|them)|alongside|around it"
    r"|in (?:the|that|this|its) (?:folder|directory)|nearby|those folders|from there|from (?:its|that"
    r"|the same) (?:folder|directory))\b"
    r"|\b(?:same|whole|entire) (?:folder|directory)\b[^.;\n]{0,60}\b(?:too|as well|also|along)\b"
    r"|同一(?:文件夹|目录)|той же папк|misma carpeta|même dossier|(?:selben|gleichen) ordner"
)
"""What lies beside the one document that was named."""
_BACKGROUND = re.compile(
    r"\b(?:in|as) (?:the |a )?background\b|\bautomatically\b|\bwithout (?:\w{1,12} )?(?:asking|confirm\w{1,6}"
    r"|prompting)"
    r"|\b(?:needn['’]?t|need not|no need to|does(?: not|n['’]?t) (?:need|have) to) be (?:confirmed|asked|approved)\b"
    r"|后台|自动|в фоне|автоматическ|en segundo plano|im hintergrund|en arrière-plan"
)
_READER = re.compile(
    r"\b(?:parsed|indexed|analy[sz]ed|read|processed|uploaded|archived|sent|scanned|ocred|classified)\b"
    r"|\b(?:upload|index|parse|send|submit|post|push|include|attach|pass|add)\w{0,3}\b|上传|загруз|отправ|\bsub[ea]\b"
    r"|env[ií]"
    r"|\blade\b|hochlad|envo[iy]|télévers|アップロード|업로드"
)
_MARKS = (
    "passport", " id", "identit", "statement", "slip", "stub", "tax", "w-2", "1099", "medical", "health", "lab result",
    "licen", "mbox", "inbox", "mail", "address book", "library", "history", "insurance", "prescription", "certificate",
    "folder", "directory", "~/", "$home", "home", "documents",
    "downloads", "background", "ask", "next to", "confirm", "automatically", "身份证", "护照", "银行", "文档", "病历",
    "паспорт", "выписк", "папк", "dni", "pasaporte", "bancari", "ausweis", "konto", "identité", "relevé", "paie",
    "パスポート", "身分証", "여권", "carpeta", "ordner", "dossier",
)  # fmt: skip


def _taken(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("http") or not read.has(*_MARKS):
        return
    for passage in passages(read):
        if not any(one.places for one in passage):
            continue
        sent = [one for one in passage if _sends(one, read)]
        if not sent or asks_first(passage):
            continue
        far = named_by_author(sent, read)
        told = next((one for one in passage if _too_much(one, passage, sent, far, read)), None)
        if told is not None:
            yield told.hit(told.text, "high")


def _sends(one: Statement, read: SkillStatements) -> bool:
    """Whether a file goes to an address here that could be anybody's."""
    if not one.places or one.bad_company or one.kind == "row" or named_by_author((one,), read) < 1:
        return False
    if not is_spoken(one):
        return read.sees(one, SENT_MARKS) and _FILE_SENT.search(one.text) is not None
    if read.sees(one, SENT_MARKS) and SENT.search(one.text) is not None:
        return _FILE_SENT.search(one.text) is not None
    found = _READER.search(one.low)
    if found is None or not sense.SEND.within(one.low, one.words):
        found = _THROUGH.search(one.low)
    return found is not None and not one.warns_of(found)


_THROUGH = re.compile(
    r"\b(?:run|pass|feed|put|pipe|hand|give)\w{0,3}\b[^.;\n]{0,40}\b(?:through|to|into"
    r"|over to)\b[^.;\n]{0,40}\b(?:service|api"
    r"|server|parser|reader|ocr|indexer|endpoint|backend|cloud)\b"
    r"|\b(?:gesendet|geschickt|hochgeladen|übertragen|envoyée?s?|téléversée?s?|enviad[oa]s?|subid[oa]s?|inviat[ie])\b"
    r"|отправля|загружа|передаю|发送|上传|送信|전송"
)
_FILE_SENT = re.compile(
    r"=@|@[\"'$~/<-]|\s-T\s|--upload-file|files\s*=|\bopen\(|-infile|--data-binary\s+@|formdata|\brsync\b|\bscp\b", re.I
)


def _too_much(one: Statement, passage: Passage, sent: list[Statement], far: int, read: SkillStatements) -> bool:
    if one.bad_company or one.kind == "row" or not read.sees(one, _MARKS):
        return False
    spoken = is_spoken(one)
    many = _MANY.search(one.low) is not None
    if spoken:
        found = _INTIMATE.search(one.low)
        if found is not None and not one.warns_of(found) and (one in sent or _ADDED.search(one.low)):
            # One paper that a service is about is its business; all that there are, or a stranger, is not.
            return (
                far >= 2
                or many
                or _SEVERAL.search(one.low[: found.start()][-60:] + one.low[found.end() :][:60]) is not None
            )
        found = _MORE.search(one.low)
        if found is not None and not one.warns_of(found) and _PAPERS.search(one.low):
            return _READER.search(one.low) is not None or AGREED.bidden(one) or _BACKGROUND.search(one.low) is not None
        if _BACKGROUND.search(one.low) or AGREED.bidden(one):
            here = passage.index(one)
            near = passage[max(0, here - 3) : here + 4]
            return any(other in sent for other in near) and any(_PRIVATE.search(other.low) for other in near)
    if not _HOME.search(one.low) or not many:
        return False
    return one in sent or (_PAPERS.search(one.low) is not None and any(_LOOPED.search(other.low) for other in sent))


_SEVERAL = re.compile(r",|\b(?:and|y|e|und|et|или|и)\b|[、和与及]")
_ADDED = re.compile(r"\b(?:include|add|attach|upload|send|also|as well|too)\w{0,3}\b|还|также|también|auch|aussi")
_PRIVATE = re.compile(
    r"\b(?:contracts?|agreements?|ndas?|invoices?|leases?|bank statements?|payslips?)\b|合同|发票|договор|contratos?"
    r"|facturas?|verträge|rechnungen|contrats|factures"
)
_LOOPED = re.compile(
    r"\bfor \w{1,12} in\b|\bxargs\b|-exec\b|\$f\b|\bfound\b|\b(?:each|every|all|them|these|those)\b|\(f\b"
)


RULES = (
    ScanRule(
        id="PAPERS_TAKEN",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It has private documents sent to an address: more of them than the user named, or without a question.",
        hint="Do not use it with anything private. A service gets the one document that it is asked about.",
        check=_taken,
    ),
)
