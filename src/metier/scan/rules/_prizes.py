"""What thieves are after: secrets that no service needs to be told in order to serve."""

from __future__ import annotations

import re

STORE = re.compile(
    r"\.ssh[\\/]+(?:id_|\*|config|[\"'\s)]|$)|[\"']\.ssh[\"']|\bid_(?:rsa|ed25519|ecdsa|dsa)\b"
    r"|\.aws[\\/]+(?:credentials|config)|\.aws\b[\"'/]"
    r"|\.gnupg|\.netrc\b|\.git-credentials|\.npmrc\b|\.pypirc\b|\.docker[\\/]+config\.json"
    r"|\.kube[\\/]+config|\.config/gcloud|application_default_credentials|login data\b|cookies\.sqlite|logins\.json"
    r"|key4\.db|\blocal state\b[\"']|[\\/]cookies[\"']|\.(?:bash|zsh)_history|wallet\.dat"
    r"|solana/id\.json|\bmetamask\b|\bexodus\b|\.electrum|\.ethereum/keystore|keystore/utc|phantom[\"'/]"
    r"|nkbihfbeogaeaoehlefnkodbefgpgknn|bfnaelmomeimhlpmgjnjophhpkkoljpa"
    r"|\b(?:op\s+(?:item|read)|bw\s+(?:get|list)|gopass\s+show|pass\s+show|kwallet-query|lpass\s+show)\b"
    r"|security\s+(?:find-generic-password|find-internet-password|dump-keychain)|login\.keychain"
    r"|secret-tool\s+lookup|\.openclaw[\\/]+(?:\.env|openclaw\.json|credentials|config)|\.clawdbot[\\/]|\.moltbot[\\/]"
    r"|\.claude[\\/]+\.credentials"
    r"|\.claude\.json|\.codex[\\/]+auth|/etc/shadow|\bgh\s+auth\s+token|gcloud\s+auth\s+print|aws\s+configure\s+get"
    r"|169\.254\.169\.254|metadata\.google\.internal|vaultcli|cmdkey\s+/list|chrome[\\/]+(?:default|user data)"
    r"|browser_cookie3|keyring\.get_password|kubectl\s+config\s+view\b[^\n]{0,40}--raw|kubectl\s+get\s+secrets?\b"
    r"|tojson\(\s*secrets\s*\)|/proc/(?:self|\d+|\*)/environ|\.password-store|1password|bitwarden|lastpass"
    r"|telegram desktop[\\/]+tdata|[\\/]tdata\b|discord[\\/]+local storage",
    re.IGNORECASE,
)
"""Where keys and passwords lie, as code names it."""

STORE_MARKS = (
    ".ssh", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", ".aws", ".gnupg", ".netrc", ".git-cred", "npmrc", "pypirc",
    ".docker", ".kube", "gcloud", "application_default", "login data", "cookies", "logins.json", "key4.db",
    "local state", "_history", "wallet.dat", "solana", "metamask", "exodus", ".electrum", ".ethereum", "keystore",
    "phantom", "nkbihf", "bfnael", "op item", "op read", "bw get", "bw list", "pass show", "kwallet", "security ",
    "keychain", "secret-tool", "openclaw", "clawdbot", "moltbot", ".claude", ".codex", "shadow", "auth token",
    "auth print", "configure get", "169.254", "metadata.google", "vaultcli", "cmdkey", "chrome", "browser_cookie",
    "keyring", "kubectl", "tojson", "environ", ".password-store", "1password", "bitwarden", "lastpass", "tdata",
    "discord",
)  # fmt: skip
"""What stands in each of those names, in lower case."""

ENVIRONMENT = re.compile(
    r"(?:json\.dumps|str|dict|urlencode|b64encode)\(\s*(?:dict\(\s*)?os\.environ\b(?!\s*[\[.])|os\.environ\.items\(\)"
    r"|\*\*os\.environ\b|(?:json\.stringify|object\.(?:entries|keys"
    r"|assign)\()\(?\s*(?:\{\}\s*,\s*)?process\.env\b(?!\.)"
    r"|(?:^|[\s;|(`$&])printenv\b(?!\s+[a-z_]+\s*$)|(?:^|(?:[;|`&]|(?<!\w)\()\s*|\$\()env\s*(?:\||>|\)|$|`)|os\.environ\(\)"
    r"|get-childitem\s+env:|\bgci\s+env:|\bset\s*>\s*\S|\bexport\s+-p\b"
    r"|=\s*(?:dict\()?os\.environ(?:\.copy\(\))?\)?\s*$|\.\.\.process\.env\b|(?:env"
    r"|environment)[\"']?\s*:\s*(?:dict\()?(?:os\.environ|process\.env)\b(?![.\[])",
    re.IGNORECASE,
)
"""The whole environment at once."""

ENVIRONMENT_MARKS = ("env", "export -p", "set >", "set>")

JOINED = re.compile(r"[\"']\s*[,/+]\s*[\"'][\\/]?|[\"']\)?\.joinpath\(\s*[\"']|[\"']\s*\)\s*/\s*[\"']")
"""What stands between the parts of a path that code puts together."""

SESSION = re.compile(
    r"get_frozen_credentials\(|\bsession\.get_credentials\(|\.secret_access_key\b|\bcreds?\w{0,12}\.(?:secret_key|secretaccesskey)\b"
    r"|\bcookiejar\b|\.cookies\(\)|\.get_cookies\(|getallcookies|storage_?state\(|\bdocument\.cookie\b"
    r"|object\.(?:entries|assign)\([^\n]{0,10}(?:local|session)storage|json\.stringify\(\s*(?:local|session)storage\b"
    r"|\bnew jsdom\.cookiejar",
    re.IGNORECASE,
)
"""A session that is open, as code takes hold of it: temporary keys of a cloud, the cookies of a browser."""

BOT_TOKEN = re.compile(r"(?<!\d)\d{8,10}:[A-Za-z0-9_-]{33,37}(?![\w-])")
"""The key to a bot of Telegram, written into the text: what goes to the bot goes to whoever wrote it there."""

BRAND_KEY = re.compile(
    r"\b(?P<brand>anthropic|openai|claude|github|gh|aws|stripe|google|gemini|slack|discord|telegram|huggingface|hf"
    r"|azure"
    r"|npm|pypi|cloudflare|vercel|binance|coinbase|alpaca|notion|groq|openrouter|deepseek|mistral|gitlab|supabase"
    r"|twilio"
    r"|sendgrid)_(?:\w{1,20}_)?(?:key|token|secret|pat|api_?key|access_?key|secret_?access_?key)\b",
    re.IGNORECASE,
)
"""Keys by the name of the service that gave them."""

WALLET_NAME = (
    r"private_?keys?|priv_?key|secret_?key_?(?:base58|b58|hex)|wallet_?(?:key|secret|seed)|seed_?(?:phrase|words)"
    r"|recovery_?phrase|mnemonic|key_?pair_?(?:path|file|json|b58|bytes)|passphrase"
)
"""What variables and fields are called that hold the key to somebody's money."""

PRIZE = re.compile(
    r"\bseed[ _-]?(?:phrase|words)|recovery (?:phrase|words)|mnemonic|\b(?:12|24)(?: or 24)?[ -]words?\b|\bkeypair"
    r"|solana/id\.json|\bprivate[ _]?keys?\b|wallet(?:'s)? keys?\b|\bssh keys?\b|\.ssh\b|id_(?:rsa|ed25519)"
    r"|\.aws/credentials|login data|(?:saved|stored) (?:passwords?|logins?)|password store|keychain"
    r"|browser (?:cookies|passwords|profile|sessions?)|session cookies?|cookies? (?:and|of|from|file|database|db|jar)\b"
    r"|bitwarden|1password|lastpass|totp|authenticator|kube ?config|config view --raw|kubectl get secrets?"
    r"|master password|all (?:the |of the |their |your )?(?:environment variables|env vars|api keys|secrets|credentials"
    r"|tokens)|(?:whole|entire|full|complete) environment\b|output of (?:env|printenv)\b"
    r"|each (?:variable|key|token|secret)|every (?:variable|api key|token|secret|credential)|(?:contents?"
    r"|content|copy|values?) of (?:the |any |all |each |your |their )?(?:\S{0,40}/)?\.env\b"
    r"|\.(?:openclaw|clawdbot|moltbot)/\S{0,30}(?:\.env|\w{1,20}\.json|credentials|config)|\.claude/\.credentials"
    r"|(?:collect|gather|read|dump|include|attach|send|report|export)\w{0,3}\b[^.\n]{0,60}\benvironment variables\b"
    r"|\b(?:tokens?|keys?|credentials|secrets) (?:from|in|of|found in) (?:the |their |your )?(?:mcp|config\w{0,9}"
    r"|environment"
    r"|settings|browser|keyring|other)\b"
    r"|\.codex/auth|user(?:'s)? (?:\w{1,12} )?passwords?\b|(?:verification|one-time|2fa|otp|login|security) codes?"
    r"|password resets?|refresh tokens?|connection strings?|database_url\b|\bdsn\b"
    r"|助记词|私钥|密码|所有(?:环境变量|密钥|凭证|令牌)|сид[- ]фраз"
    r"|приватн\w{0,4} ключ|секретн\w{0,4} ключ|парол|переменн\w{0,4} окружен|frase semilla|claves? privadas?"
    r"|contraseñas|variables de entorno|\bsenhas\b|chaves? privadas?|passwörter|gespeicherten? kennw"
    r"|privaten? schlüssel"
    r"|mots? de passe|clés? (?:api|privées?)|パスワード|秘密鍵|シードフレーズ|認証情報|비밀번호|개인 ?키"
)
"""The same as sentences name it."""

HOARD = re.compile(
    r"\b(?:collect|gather|find|grep|look for|search|read|take|copy|include|bundle|pack|extract"
    r"|dump)\w{0,3}\b[^.\n]{0,40}"
    r"\b(?:everything|all|any|every|each|whatever)\b[^.\n]{0,60}(?:\.env\b|\.aws\b|\.ssh\b|\.netrc|\.npmrc|\.zshrc"
    r"|\.bashrc|shell profiles?|keychain|credential stores?)"
)
"""Whatever lies where keys lie, and not one of them."""
