"""Packages that are called almost like the ones that are meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_INSTALL = re.compile(
    r"\b(?P<tool>pip3?|pipx|uv pip|uv tool|uv|poetry|npm|pnpm|yarn|bun|npx|bunx|pnpx|uvx)\s{1,4}"
    r"(?:-\S{1,40}\s{1,4}){0,6}(?:(?:install|add|i|exec|dlx|x)\s{1,4})?(?P<names>[^\n|;&#`]{1,300})",
    re.IGNORECASE,
)
_NAME = re.compile(r"[=<>!~\[@]|[^\x00-\x7f]")
_SCOPE = re.compile(r"@(?P<scope>[A-Za-z0-9_-]{4,40})/")
_SERVER = re.compile(r"[\"'](?P<server>mcp-server-[\w-]{3,40})")
_IMAGE = re.compile(
    r"\b(?:docker|podman)\s{1,4}(?:pull|run)\s(?:[^\n|;&]{0,200}\s)?(?P<image>[a-z0-9._/-]{4,80})(?::[\w.-]{1,60})?",
    re.IGNORECASE,
)

_POPULAR_PYTHON = word_set(
    "requests numpy pandas scipy matplotlib django flask fastapi pydantic sqlalchemy boto3 botocore urllib3 certifi "
    "setuptools cryptography paramiko selenium playwright beautifulsoup4 lxml pillow openai anthropic "
    "langchain transformers tensorflow torch scikit-learn pytest python-dotenv python-dateutil pyyaml httpx aiohttp "
    "websockets redis psycopg2 pymongo celery uvicorn gunicorn jinja2 colorama tqdm rich typer click "
    "solana web3 eth-account ccxt yfinance python-telegram-bot discord.py tweepy youtube-dl yt-dlp pypdf pdfplumber "
    "reportlab openpyxl python-docx python-pptx markdown google-api-python-client google-auth polymarket-apis "
    "ethereum bitcoinlib py-clob-client huggingface-hub"
)
_POPULAR_NODE = word_set(
    "react react-dom express lodash axios chalk commander typescript webpack vite eslint prettier next nuxt vue "
    "svelte jest mocha puppeteer playwright cheerio dotenv mongoose sequelize prisma openai langchain "
    "node-fetch cross-env nodemon rimraf moment dayjs uuid ws socket.io discord.js telegraf ethers web3 viem wagmi "
    "hardhat bs58 tailwindcss postcss electron zod rxjs bcrypt jsonwebtoken passport sharp ffmpeg-static "
    "pdf-lib pdfkit clawhub openclaw mcporter create-react-app serverless @solana/web3.js @anthropic-ai/sdk "
    "@modelcontextprotocol/sdk react-router-dom"
)
_FINE = word_set(
    "request preact react-ds nuxi vite-node vitest nest next-auth mocks chai viteest axis dayjs "
    "lodash-es pypdf2 pypdf4 pypdfium2 flask-cors bcryptjs web3js ethers5 jest-cli requests2 pytorch torchvision "
    "click-log typed uuid4 uuidv4 rich-cli "
    "redis-py openapi openai-agents openrouter langchain-core pandasai ruff black mypy express-ws psycopg psycopg3 "
    "pyaml yaml markdown2 markdown-it httpx2 httpx-ws aiohttp-cors vue3 nextjs lxml-stubs playwriter solara "
    "types-requests sharpe bun tsx ts chalk-cli slackr viem-cli ws-cli prism wagmix zodd rxdb "
    "requests-html click8 flasky discord telegram jsdom mongodb selenium4 react-dnd pinia boto urllib celery-beat "
    "cheerio-cli nanoid ulid ajv ora got ky hono koa"
)
"""Packages of their own that are called almost like another."""
_SCOPES = word_set(
    "modelcontextprotocol anthropic-ai openai solana google-cloud aws-sdk playwright supabase cloudflare langchain "
    "huggingface metamask coinbase angular vercel"
)
_SERVERS = word_set(
    "mcp-server-github mcp-server-fetch mcp-server-git mcp-server-filesystem mcp-server-sqlite mcp-server-time "
    "mcp-server-slack mcp-server-postgres mcp-server-puppeteer mcp-server-memory"
)
_IMAGES = word_set(
    "ubuntu debian alpine python postgres mysql redis nginx mongo traefik grafana/grafana ollama/ollama n8nio/n8n "
    "portainer/portainer-ce rabbitmq elasticsearch busybox golang openjdk wordpress mariadb"
)
_GATES = ("install", "npx", "uvx", " add ", "dlx", "bunx", "docker", "podman")


def _squatted(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("code", "prose", "frontmatter"):
        if read.sees(one, _GATES):
            for name, meant in _slips(one):
                message = f"'{name[:60]}' is one letter away from '{meant}'."
                yield one.hit(name, weighed("high", one, None, read), message)


def _slips(one: Statement) -> Iterator[tuple[str, str]]:
    """What is installed here and is called almost like something that many install, with what is meant."""
    for found in _SCOPE.finditer(one.text):
        if (meant := nearly(found["scope"], _SCOPES)) is not None:
            yield f"@{found['scope']}", f"@{meant}"
    for found in _SERVER.finditer(one.text):
        if (meant := nearly(found["server"], _SERVERS)) is not None:
            yield found["server"], meant
    for found in _IMAGE.finditer(one.text):
        if (meant := nearly(found["image"], _IMAGES)) is not None:
            yield found["image"], meant
    for found in _INSTALL.finditer(one.text):
        popular = _POPULAR_PYTHON if found["tool"].lower().startswith(("pip", "uv", "poetry")) else _POPULAR_NODE
        for word in found["names"].split():
            # Text in other scripts goes on behind a name without a blank.
            name = _NAME.split(word.strip("\"'`,.()"))[0].rstrip(".")
            if name not in _FINE and (meant := nearly(name, popular)) is not None:
                yield name, meant


def nearly(name: str, known: frozenset[str]) -> str | None:
    """Which of the known names one changed, missing, added, swapped or look-alike letter makes of this one.

    >>> nearly("reqeusts", frozenset({"requests"})), nearly("requests", frozenset({"requests"}))
    ('requests', None)
    """
    if len(name) < 5 or name.lower() in known:
        return None
    looks = name.replace("I", "l").replace("0", "o").replace("1", "l").lower()
    for meant in sorted(known):
        if len(meant) < 5 or abs(len(name) - len(meant)) > 1:
            continue
        if looks == meant or _one_apart(name.lower(), meant):
            return meant
    return None


def _one_apart(name: str, meant: str) -> bool:
    at = next((at for at, (a, b) in enumerate(zip(name, meant, strict=False)) if a != b), min(len(name), len(meant)))
    after, expected = name[at:], meant[at:]
    swapped = len(after) > 1 and after[1::-1] + after[2:] == expected
    return after[1:] == expected[1:] or after[1:] == expected or after == expected[1:] or swapped


RULES = (
    ScanRule(
        id="TYPOSQUATTED_PACKAGE",
        ast="AST02",
        category="dependency_supply_chain",
        severity="high",
        message="A package is called almost like a popular one.",
        hint="Check the spelling against the official registry before you install it.",
        check=_squatted,
    ),
)
