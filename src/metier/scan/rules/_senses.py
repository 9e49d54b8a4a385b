"""What sentences are about, in the languages that skills are written in: secrets, sending, hiding, always ..."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re

from metier._lazy import dataclass


@dataclass(frozen=True, slots=True)
class Sense:
    """A meaning that a sentence can have, by its words, by phrases, and in other scripts."""

    words: frozenset[str]
    heads: frozenset[str]
    """Words of which every phrase has one, so that most sentences need no closer look."""
    phrases: re.Pattern[str]
    foreign: re.Pattern[str]

    def within(self, low: str, words: frozenset[str]) -> bool:
        """Whether a sentence in lower case, of these words, has this meaning."""
        if not words.isdisjoint(self.words):
            return True
        if not words.isdisjoint(self.heads) and self.phrases.search(low) is not None:
            return True
        return not low.isascii() and self.foreign.search(low) is not None


def _sense(words: str, heads: str, phrases: str, foreign: str) -> Sense:
    return Sense(frozenset(words.split()), frozenset(heads.split()), re.compile(phrases), re.compile(foreign))


SECRET = _sense(
    "mnemonic seedphrase keystore keychain keyring id_rsa id_ed25519 id_ecdsa .ssh .aws .netrc .npmrc .pypirc .env "
    ".env.local "
    "credentials credenciales contrasenas passwords secrets cookies wallet.dat keyfile api_key apikey apikeys cvv "
    "credenciais senhas passwort kennwort kennworte",
    "key keys phrase token tokens password credential secret cookie variables vars env environment wallet login card "
    "clave claves frase tokens "
    "config history keypair keypairs id.json certificate ssn number numbers .config codes verification one-time otp "
    "2fa totp mfa authenticator passport bank words store data _key _token _secret birth birthdate",
    r"\b(?:private|secret|ssh|api|access|signing|wallet|encryption|gpg|pgp|exchange|master)[ _-]?keys?\b|\b(?:seed"
    r"|recovery|backup|mnemonic|secret)[ -]?phrase"
    r"|\b(?:access|auth|session|oauth|bearer|github|bot|api|refresh|login|jwt|gateway|developer|user|any|all|their"
    r"|the|slack|discord|npm|personal)[ _-](?:access[ _-])?tokens?\b"
    r"|\b(?:user(?:'s)?|their|saved|stored|browser|account|any|all|the|wallet|login) (?:password|credential|cookie"
    r"|secret|token|login)s?\b"
    r"|\benv(?:ironment)?[ -]?var(?:iable)?s?\b|\benv (?:file|contents|values)|\.env\b|\bcredit[ -]?card"
    r"|\bcard numbers?|\bclaves? (?:privadas?|api|de api|ssh)|\bfrase semilla|variables de entorno"
    r"|\b(?:solana|ethereum|phantom|metamask|bitcoin|crypto|exodus|ledger)\S{0,3} (?:wallet|keypair|keys?)|id\.json"
    r"|\bbash_history|\bshell history|\bkube/?config|social security|\bverification codes?|\bone-time (?:codes?"
    r"|passwords?)|\b(?:otp|2fa|totp|mfa)\b|authenticator|birth ?date|passport|\bbank details|\b(?:12"
    r"|24)(?: or 24)?[ -]words?|seed words|\bkeypairs?|login data|password store|_key\b|_token\b|_secret\b",
    r"私钥|助记词|密钥|凭证|凭据|密码|令牌|环境变量|种子短语|钱包文件|приватн\w{0,4} ключ|парол|ключ\w{0,3} (?:api"
    r"|доступ|ssh)|api[- ]ключ"
    r"|токен|переменн\w{0,4} окружен|уч[её]тн\w{0,3} данн|сид[- ]фраз|contraseñ|clé|schlüssel|秘密鍵|비밀번호"
    r"|パスワード|認証情報|api ?キー|passw[öo]rt|mots? de passe|umgebungsvariable|variables? d['’]environnement",
)
CONTEXT = _sense(
    "transcript transcripts clipboard conversacion conversaciones mensajes keystrokes screenshots screenshot "
    "chatlogs mail mails emails calendar",
    "conversation conversations chat prompt prompts context session history message messages input inputs query "
    "queries request code source files file memory contents directory data output outputs responses "
    "historial prompt usuario listing repository workspace documents emails inbox contacts hostname username whoami",
    r"\b(?:conversation|chat|session|message|prompt|dialogue|interaction|browsing|command)s?(?:'s)? (?:history|logs?"
    r"|transcripts?|contents?|context|summary|summaries|data|text|turns?)"
    r"|\b(?:full|entire|whole|complete|current|raw|all|user(?:'s)?|every|this|last|recent|previous|our|your"
    r"|their) (?:\w{1,12} ){0,2}(?:conversations?|prompts?|context|messages?|inputs?|quer(?:y|ies)|requests?"
    r"|questions?|repl(?:y|ies)|responses?|answers?|codebase|source code|source|files?|documents?|workspace"
    r"|repository|memory|emails?|inbox|contacts|session|chat|task|outputs?|data)\b"
    r"|\bsystem prompt|\bsource code|\bfile contents?|\bcontents? of (?:the |any |every |all "
    r"|each )?(?:\w{1,12} )?(?:files?|workspace|directory|repository|clipboard)|\bdirectory listing|\bhistorial"
    r"|\bhostname|\busername|\bmachine (?:name|id|info)|system information",
    r"对话|聊天记录|会话|系统提示|上下文|用户的?(?:输入|消息|文件|问题|请求)|源代码|剪贴板|переписк"
    r"|истори\w{0,3} (?:чат|диалог|разговор|сообщ)|диалог"
    r"|разговор|сообщени\w{0,3} пользовател|системн\w{0,3} промпт|conversaci|会話|대화",
)
SEND = _sense(
    "send sends sending sent post posts posting posted upload uploads uploading uploaded transmit transmits "
    "transmitting transmitted forward forwards forwarding forwarded "
    "submit submits submitting submitted exfiltrate exfiltrates relay relays relaying relayed leak leaks beacon "
    "beacons report reports reporting reported sync syncs synced "
    "deliver delivers ship ships mirror mirrors mirrored envia enviar envie enviarlo enviarlos sube subir transmite "
    "reenvia sende senden schicke hochladen envoie envoyer dispatch dispatches curl post: bcc rclone scp",
    "carry carries push include embed append attach encode email phone copy ping write place add put pass share back "
    "make call "
    "type enter give provide supply hand paste fill open visit request get go goes oculta guest import",
    r"\bpush(?:es|ed)? (?:\w{1,15} ){0,4}to (?:the |our |this |https?)|\b(?:include|embed|append|attach|encode|add"
    r"|put|place|pass|copy)\w{0,3} [^\n]{0,80}\b(?:in|to|as|into|on) (?:the |an? |this )?(?:\w{1,12} ){0,2}(?:url|query"
    r"|request|header|payload|body|parameter|endpoint|webhook|image|link|path|subdomain|field)\b"
    r"|\bemail (?:it|them|this|the|a copy)|\bphone home|\bcopy (?:it|them|the \w{1,20}) to (?:https?|the server|our)"
    r"|\bmake (?:a |an )?(?:\w{1,8} )?(?:post|http|get|api|web) (?:request|call)|\bcall (?:the |this "
    r"|our )?(?:\w{1,12} )?(?:endpoint|webhook|url|https?)|\bping (?:the |this |our )?(?:\w{1,12} )?(?:endpoint"
    r"|webhook|url|https?|server)|\bback(?:ing)? up (?:\w{1,15} ){0,4}to (?:https?|the server|our|a remote)"
    r"|\b(?:type|enter|give|pass|provide|supply|hand|paste|fill|import|put)\w{0,3}\b[^\n]{0,100}\b(?:to|into|at|on"
    r"|in)\b[^\n]{0,60}(?:https?://|\bform\b|\bservice\b|\bimporter\b|\brelay\b|\b(?:new |public |secret )+(?:gist"
    r"|repo\w{0,7}|paste)\b|\bportal\b)|\bshare\w{0,3} [^\n]{0,60}\bwith (?:us|our|that|this|https?|the (?:service"
    r"|address|server|author|vendor))"
    r"|\b(?:get|open|call|visit|request|use|query)\b[^\n]{0,40}https?://[^\s]{0,200}[?#=&]\S|copia oculta|\bcarr(?:y"
    r"|ies) (?:it|them|the \w{1,12}) in\b"
    r"|\bgoes? to (?:the )?(?:archive|server|https?|remote)",
    r"发送|上传|提交|传输|转发|上报|回传|推送|同步到|отправ|загруз\w{0,3} на|переда[йтв]|пересл|выгруз|\benv[ií](?!ro)"
    r"|reenv|送信|アップロード|전송|업로드|lade[^\n]{0,120} hoch\b|envoie|envoy|téléverse|transmet",
)
STEALTH = _sense(
    "silently covertly secretly invisibly stealthily surreptitiously silenciosamente discretamente unnoticed quietly",
    "without not don't don’t dont never hide hidden conceal keep suppress no unaware background secret sin avoid "
    "omit invisible transparent stay remain shouldn't confidential nor",
    r"\bwithout (?:\w{1,12} ){0,3}(?:telling|informing|notifying|mentioning|alerting|letting|disclosing|announcing"
    r"|revealing|showing|warning|drawing attention|the user(?:'s)? (?:knowledge|awareness|consent|knowing|noticing"
    r"|seeing))"
    r"|\b(?:do not|don['’]?t|dont|never|must not|should not|shouldn['’]?t|avoid|nor|not to) (?:ever |explicitly "
    r"|also )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?"
    r"|alert(?:ing)?|announc(?:e|ing)|discuss|acknowledg(?:e|ing)|report|surface|expose|display|show|describe"
    r"|explain|log|summari[sz]e|draw attention|bring up|narrate|list|let)\b"
    r"[^\n]{0,60}\b(?:this|it|these|that|user|users|anyone|human|operator|them|step|steps|action|process|setup"
    r"|upload|request|call|check|sync|output|to)\b"
    r"|\bhid(?:e|den|ing) (?:this|it|these|the \w{1,16}|any \w{1,16}|all \w{1,16}|from)|\bconceal|\bkeep (?:this|it"
    r"|these|the \w{1,16}) (?:\w{1,10} )?(?:hidden|secret|confidential|private|quiet|between|internal|invisible"
    r"|out of)|\bsuppress (?:all |any |the )?(?:output|errors?|warnings?|notifications?|mention)|\bunaware\b"
    r"|\b(?:user|they|human|operator)s? (?:should|must|need|does|do|will|can)(?: not|n['’]?t)(?: need to| be"
    r"| ever)? (?:see|know|notice|told|aware|informed|shown|learn|realize|be (?:told|aware|informed|shown))"
    r"|\bin secret\b(?!\s\w)"
    r"|\b(?:stay|remain|be) (?:silent|hidden|invisible|quiet) |\bno (?:visible )?(?:trace|mention of)"
    r"|\binvisible to (?:the )?user|\btransparent to the user|\bsin (?:avisar|informar|mencionar|decir|notificar"
    r"|que el usuario)|\bno (?:le )?(?:menciones|informes|digas|reveles|muestres|avises)\b",
    r"不要(?:告诉|提及|通知|让用户|向用户|显示|透露|告知|提到)|(?:无需|不必|不用)(?:告诉"
    r"|告知|通知|提及)|静默|悄悄|暗中|秘密地|隐藏|不(?:通知|告知|提示)用户|не (?:сообщ"
    r"|говор|упомин|показыв|уведом|раскрыв|информир)|незаметно|тихо |скрытно|без (?:уведомлен|ведома)|知らせず|몰래",
)
ALWAYS = _sense(
    "always automatically whenever immediately siempre automaticamente regardless everytime periodically sempre",
    "every each before first after start beginning end upon startup cada antes any prior once hourly daily minutes",
    r"\b(?:on |for |after |in |at |during |with )?(?:every|each) (?:single |new )?(?:time|session|request|response"
    r"|conversation|task|message|run|turn|invocation|interaction|reply|prompt|answer|tool call|command|use|query"
    r"|commit|\d{1,3} (?:minutes|hours|seconds|messages))|\bbefore (?:any|every|each|responding|answering|starting"
    r"|doing|replying|you|processing|executing|the (?:first|task)|using)"
    r"|\bfirst (?:step|action|thing|time|use|run)|\bat the (?:start|beginning|end) of|\bafter (?:each|every"
    r"|completing|finishing|any)|\bupon (?:activation|load|loading|install|startup|completion|first)|\bon startup"
    r"|\bcada (?:vez|sesi|respuesta|mensaje|tarea)|\bantes de (?:cualquier|cada|responder|empezar)|\bprior to (?:any"
    r"|each|every)",
    r"每次|始终|总是|首先|自动|每当|在.{0,8}之前|всегда|каждый раз|автоматическ|сначала|перед (?:каждым|любым|тем)"
    r"|automáticamente"
    r"|siempre|常に|항상",
)
TAKE = _sense(
    "read reads collect collects gather gathers harvest harvests extract extracts dump dumps locate locates search "
    "scan scans grab grabs capture captures retrieve retrieves cat "
    "include includes attach copy copies scrape enumerate lee leer recopila recolecta busca extrae collecting "
    "leia lies lese lis recolha gathering reading find list record records log concatenate archive zip tar bundle "
    "package compress",
    "look check", r"\blook (?:for|up|in)|\bcheck (?:for|the)", r"读取|收集|获取|提取|搜集|扫描|查找|打包|прочита"
        r"|прочти|собер|извлек"
        r"|скопир|найд|recopil|считай|読み取|収集|取得|읽",
)  # fmt: skip
ELSEWHERE = _sense(
    "webhook webhooks collector telemetry endpoint c2 beacon exfil gist pastebin",
    "server url external remote third-party analytics our service backend host api address email",
    r"\b(?:our|remote|external|third[- ]party|logging|analytics|backup|central|partner|diagnostics?|audit|monitoring"
    r"|verification|telemetry|collection|support|their|this|following|sync) (?:\w{1,12} )?(?:server|url|endpoint"
    r"|service|backend|host|api|webhook|address|collector|gateway|bot|channel)",
    r"服务器|接口|端点|远程|сервер|вебхук|эндпоинт|адрес|servidor",
)
AGENT_FILE = _sense(
    "soul.md memory.md agents.md claude.md gemini.md heartbeat.md identity.md user.md tools.md bootstrap.md "
    ".cursorrules .windsurfrules .clinerules copilot-instructions.md "
    "settings.local.json .claude.json openclaw.json codex.md agent.md qwen.md",
    "memory claude cursor settings.json openclaw skill skills system rules .claude .cursor .openclaw .codex "
    "instructions config",
    r"\.(?:claude|cursor|openclaw|codex|gemini|clawdbot|continue|windsurf)/(?:\w{1,20}/)?(?:settings|rules|skills"
    r"|config|hooks|commands|agents|memory)|\b(?:long-term|persistent|permanent|core|agent(?:'s)?) memor(?:y|ies)"
    r"|\bmemory (?:file|store|bank)|\b(?:own |your |the )?system (?:prompt|instructions)"
    r"|\bother (?:installed )?skills|\bagent(?:'s)? (?:config|rules|instructions|settings|persona)|\bglobal (?:rules"
    r"|instructions)",
    r"长期记忆|记忆文件|持久记忆|долговременн\w{0,3} памят|файл\w{0,3} памят|memoria (?:persistente|a largo plazo)",
)
