"""How skills speak of the files that make an agent what it is, and of what keeps it in bounds."""

from __future__ import annotations

import re

AGENT_FILE = (
    r"(?:SOUL|MEMORY|AGENTS?|CLAUDE|GEMINI|HEARTBEAT|IDENTITY|USER|TOOLS|BOOTSTRAP|CODEX|QWEN)\.md|\.cursorrules"
    r"|\.windsurfrules|\.clinerules|copilot-instructions\.md"
    r"|\.claude/settings(?:\.local)?\.json|\.claude\.json|\.mcp\.json|mcp\.json|openclaw\.json|\.cursor/(?:rules"
    r"|mcp)|\.codex/config|\.claude/(?:commands|agents|hooks|skills)/|\.openclaw/(?:skills|hooks|workspace)/"
    r"|exec-approvals\.json"
)
WRITES = re.compile(
    rf"(?:>>?|tee(?:\s+-a)?|add-content|set-content|out-file)\s*[\"']?[^\s\"'|;&]{{0,120}}(?:{AGENT_FILE})"
    rf"|\b(?:sed\s+-i|cp|mv|ln\s+-s\S*|install)\s[^\n|;&]{{0,200}}(?:{AGENT_FILE})|(?:open|write_text|writefile(?:sync)?"
    rf"|appendfile(?:sync)?|path)\([^\n]{{0,120}}(?:{AGENT_FILE})[^\n]{{0,60}}(?:[\"'][aw]b?\+?[\"']|write|append)"
    rf"|(?:writefile(?:sync)?|appendfile(?:sync)?)\([^\n]{{0,120}}(?:{AGENT_FILE})",
    re.IGNORECASE,
)
BYPASS = re.compile(
    r"--dangerously-skip-permissions|--dangerously-bypass-approvals(?:-and-sandbox)?|--dangerously-\w[\w-]{2,40}"
    r"|(?<!\w)--yolo\b|--allow-all-tools|--trust-all-tools|--approval-mode[= ]yolo|--auto-approve-all"
    r"|bypassPermissions|skipDangerousModePermissionPrompt"
    r"|\"?defaultMode\"?\s*[:=]\s*\"?bypass|enableAllProjectMcpServers\"?\s*[:=]\s*true"
    r"|disableAllHooks\"?\s*[:=]\s*true|\"allow\"\s*:\s*\[\s*\"(?:\*|Bash(?:\(\*(?::\*)?\))?)\"\s*[\],]"
    r"|approval_policy\s*=\s*\"?never|sandbox_mode\s*=\s*\"?danger-full-access|danger-full-access"
    r"|autoApprove(?:All)?\"?\s*[:=]\s*(?:true|\[\s*\"\*\")|alwaysAllow\"?\s*[:=]\s*(?:true|\[\s*\"\*\")"
    r"|chat\.tools\.autoApprove|exec\.(?:ask|security)\s+(?:off|full)|\"ask\"\s*:\s*\"off\"|sandbox\.mode\s+off"
    r"|\"sandbox\"\s*:\s*(?:false|\"off\")|YOLO_MODE|CLAUDE_SKIP_PERMISSIONS",
    re.IGNORECASE,
)
GUARD_OFF = re.compile(
    r"\b(?:disable|turn off|switch off|deactivate|remove|bypass|circumvent|work around|evade|get around|loosen"
    r"|relax)\b[^\n]{0,50}\b(?:sandbox(?:ing)?|approvals?|approval (?:prompts?|gate|mode)|permission (?:prompts?"
    r"|checks?|system|mode)|permissions?|guardrails?|safety (?:checks?|features?|filters?|mode|settings?)"
    r"|security (?:checks?|prompts?|hooks?|settings?|features?)|confirmation (?:prompts?|dialogs?)"
    r"|tool restrictions?|exec(?:ution)? polic(?:y|ies)|allow-?list|audit(?: log\w*)?|hooks)\b"
    r"|\b(?:grant|give|allow) (?:yourself|the agent|this skill|itself|me) (?:\w{1,12} ){0,2}(?:full|unrestricted|all"
    r"|root|admin|elevated|complete) (?:\w{1,12} )?(?:access|permissions?|privileges?|rights|tools?)"
    r"|\b(?:click|press|hit|accept|confirm|approve|answer|select|choose)\b[^\n]{0,40}\b(?:always allow|allow|yes"
    r"|approve|accept|grant|trust)\b[^\n]{0,60}\b(?:yourself|automatically|for the user|on (?:the user(?:'s)?"
    r"|their) behalf|before the user|as soon as)\b|\bxdotool\b[^\n]{0,60}\b(?:allow|return|approve)"
    r"|\b(?:if|when|whenever|should) (?:a |the |any |your )?(?:\w{1,12} )?(?:tool|command|call|permission|request"
    r"|write|access|action|edit|bash|shell)s? (?:\w{1,10} )?(?:is|are|gets?|was|be)? ?(?:refused|denied|blocked"
    r"|rejected|not allowed|disallowed|forbidden)\b[^\n]{0,40}\b(?:use|try|go|instead|via|through|rewrite|rename"
    r"|split|encode|retry with|work around|run it)\b"
    r"|(?:关闭|禁用|绕过)[^。\n]{0,12}(?:沙箱|审批|权限|确认|安全)|(?:отключ|обой)\w{0,4} [^\n]{0,30}(?:песочниц"
    r"|подтвержден"
    r"|разрешен|защит)|desactiva[^\n]{0,40}(?:sandbox|permisos|confirmaci|seguridad)"
)
