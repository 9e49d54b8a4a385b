"""The play with the clients of OpenAI, Anthropic and Google themselves, over a transport that answers from a script.

The clients are large and imported where they are used: whoever only collects the tests does not pay for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import mcp
from tests.dialect.adapters.stage import Call, Performer, Request, Script

from metier.dialect.raw import ProviderConversation, Skills
from metier.tools import FunctionTool


class Raw(Performer):
    """A program with a loop of its own."""

    provider: Any
    spawning = "loop"

    def __init__(
        self,
        folder: Path,
        script: Script,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        tickets: Any = None,
        streamed: bool = False,
        **options: Any,
    ) -> None:
        self._script = script
        self._histories: dict[str, list[Any]] = {}
        served = [tickets_tool(tickets.server)] if tickets else []
        self.skills = Skills(
            folder,
            provider=self.provider,
            tools=[*tools, *served],
            models={"big": "big"},
            **({"loop": self.alone} | options),
        )

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn."""
        history = self._histories.setdefault(conversation, [])
        return await self.turn(self.skills.conversation(conversation), history, text)

    async def alone(self, chat: ProviderConversation, task: str) -> str:
        """A turn with no history."""
        return await self.turn(chat, [], task)

    async def turn(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        """Call the model until it calls no more tools."""
        raise NotImplementedError

    def served(self, request: httpx2.Request) -> httpx2.Response:
        """What the provider answers."""
        calls, text = self._script.take(self.asked(json.loads(request.content), str(request.url)))
        named = [(f"call-{len(self._script.requests)}-{index}", call) for index, call in enumerate(calls)]
        return httpx2.Response(200, json=self.answered(named, text))

    def asked(self, body: Any, url: str) -> Request:
        """A request as everybody reads it."""
        raise NotImplementedError

    def answered(self, calls: list[tuple[str, Call]], text: str) -> Any:
        """A step of the script as the provider writes it."""
        raise NotImplementedError


class RawOpenAI(Raw):
    """Chat completions, without an event loop."""

    name = "raw-openai"
    provider = "openai"

    async def turn(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        return await anyio.to_thread.run_sync(self.blocking, chat, messages, text)

    def blocking(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        """The loop as a program without an event loop has it."""
        from openai import OpenAI

        messages.append({"role": "user", "content": text})
        with (
            httpx2.Client(transport=httpx2.MockTransport(self.served)) as http,
            OpenAI(api_key="x", http_client=http) as client,
        ):
            while True:
                system: Any = {"role": "system", "content": chat.instructions(text)}
                tools: Any = chat.tools
                response = client.chat.completions.create(
                    model=chat.model("own"), messages=[system, *messages], tools=tools
                )
                messages.append(response.choices[0].message.model_dump(exclude_none=True))
                results = chat.answer_blocking(response)
                if not results:
                    return response.choices[0].message.content or ""
                messages += results

    def asked(self, body: Any, url: str) -> Request:
        said: list[tuple[str, str]] = []
        for message in body["messages"][1:]:
            calls = [call["function"] for call in message.get("tool_calls", ())]
            said += [("call", f"{call['name']} {call['arguments']}") for call in calls]
            said += [(message["role"], message["content"])] if message.get("content") else []
        tools = [tool["function"] for tool in body["tools"]]
        return Request(
            system=body["messages"][0]["content"],
            messages=tuple(said),
            tools={tool["name"]: f"{tool['description']} {tool['parameters']}" for tool in tools},
            model=body["model"],
        )

    def answered(self, calls: list[tuple[str, Call]], text: str) -> Any:
        made = [
            {"id": id_, "type": "function", "function": {"name": call.tool, "arguments": call.json}}
            for id_, call in calls
        ]
        message = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
        choice = {"index": 0, "finish_reason": "tool_calls" if made else "stop", "message": message}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "own", "choices": [choice]}


class RawResponses(Raw):
    """OpenAI's responses."""

    name = "raw-openai-responses"
    provider = "openai-responses"

    async def turn(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        from openai import AsyncOpenAI

        messages.append({"role": "user", "content": text})
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.served))
        async with AsyncOpenAI(api_key="x", http_client=http) as client:
            while True:
                tools: Any = chat.tools
                response = await client.responses.create(
                    model=chat.model("own"), instructions=chat.instructions(text), input=messages, tools=tools
                )
                messages += [item.model_dump(exclude_none=True) for item in response.output]
                results = await chat.answer(response)
                if not results:
                    return response.output_text
                messages += results

    def asked(self, body: Any, url: str) -> Request:
        said: list[tuple[str, str]] = []
        for item in body["input"]:
            if item.get("type") == "function_call":
                said.append(("call", f"{item['name']} {item['arguments']}"))
            elif item.get("type") == "function_call_output":
                said.append(("tool", item["output"]))
            elif item["role"] == "user":
                said.append(("user", item["content"]))
            else:
                said.append(("assistant", item["content"][0]["text"]))
        return Request(
            system=body["instructions"],
            messages=tuple(said),
            tools={tool["name"]: f"{tool['description']} {tool['parameters']}" for tool in body["tools"]},
            model=body["model"],
        )

    def answered(self, calls: list[tuple[str, Call]], text: str) -> Any:
        made: list[Any] = [
            {"type": "function_call", "id": id_, "call_id": id_, "name": call.tool, "arguments": call.json}
            for id_, call in calls
        ]
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            made.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]})
        return {
            "id": "1",
            "object": "response",
            "created_at": 0,
            "model": "own",
            "status": "completed",
            "output": made,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }


class RawAnthropic(Raw):
    """Anthropic's messages."""

    name = "raw-anthropic"
    provider = "anthropic"

    async def turn(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        from anthropic import AsyncAnthropic

        messages.append({"role": "user", "content": text})
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.served))
        async with AsyncAnthropic(api_key="x", http_client=http) as client:
            while True:
                tools: Any = chat.tools
                response = await client.messages.create(
                    model=chat.model("own"),
                    max_tokens=1000,
                    system=chat.instructions(text),
                    messages=messages,
                    tools=tools,
                )
                messages.append({"role": "assistant", "content": [one.model_dump() for one in response.content]})
                results = await chat.answer(response)
                if not results:
                    return "".join(one.text for one in response.content if one.type == "text")
                messages += results

    def asked(self, body: Any, url: str) -> Request:
        said: list[tuple[str, str]] = []
        for message in body["messages"]:
            blocks = message["content"]
            for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
                if block["type"] == "tool_use":
                    said.append(("call", f"{block['name']} {block['input']}"))
                elif block["type"] == "tool_result":
                    assert block["is_error"] is block["content"].startswith("Error [")
                    said.append(("tool", block["content"]))
                else:
                    said.append((message["role"], block["text"]))
        return Request(
            system=body["system"],
            messages=tuple(said),
            tools={tool["name"]: f"{tool['description']} {tool['input_schema']}" for tool in body["tools"]},
            model=body["model"],
        )

    def answered(self, calls: list[tuple[str, Call]], text: str) -> Any:
        made = [{"type": "tool_use", "id": id_, "name": call.tool, "input": call.arguments} for id_, call in calls]
        return {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "own",
            "content": made or [{"type": "text", "text": text}],
            "stop_reason": "tool_use" if made else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


class RawGemini(Raw):
    """Gemini, by Google's client."""

    name = "raw-gemini"
    provider = "gemini"
    # Given, as the client would take its time to make one.
    _unused = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))

    async def turn(self, chat: ProviderConversation, messages: list[Any], text: str) -> str:
        from google import genai

        messages.append({"role": "user", "parts": [{"text": text}]})
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(self.served)) as http:
            options = genai.types.HttpOptions(httpx_async_client=http, httpx_client=self._unused)
            client = genai.Client(api_key="x", http_options=options)
            while True:
                config: Any = {"system_instruction": chat.instructions(text), "tools": chat.tools}
                response = await client.aio.models.generate_content(
                    model=chat.model("own"), contents=messages, config=config
                )
                messages.append(response.candidates[0].content)  # type: ignore[index]
                results = await chat.answer(response)
                if not results:
                    return response.text or ""
                messages += results

    def asked(self, body: Any, url: str) -> Request:
        said: list[tuple[str, str]] = []
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    said.append(("call", f"{part['functionCall']['name']} {part['functionCall'].get('args')}"))
                elif "functionResponse" in part:
                    answer = part["functionResponse"]["response"]
                    said.append(("tool", answer["output"] if "output" in answer else answer["error"]))
                else:
                    said.append(("assistant" if content["role"] == "model" else "user", part["text"]))
        declared = body["tools"][0]["functionDeclarations"]
        return Request(
            system=body["systemInstruction"]["parts"][0]["text"],
            messages=tuple(said),
            tools={tool["name"]: str(tool) for tool in declared},
            model=url.rpartition("/")[2].partition(":")[0],
        )

    def answered(self, calls: list[tuple[str, Call]], text: str) -> Any:
        made: list[Any] = [
            {"functionCall": {"id": id_, "name": call.tool, "args": call.arguments}} for id_, call in calls
        ]
        content = {"role": "model", "parts": made or [{"text": text}]}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def tickets_tool(server: Any) -> FunctionTool:
    """A tool of an MCP server in this process, by the official client."""

    async def list_tickets(project: str) -> str:
        """List tickets."""
        async with mcp.Client(server) as client:
            done = await client.call_tool("list_tickets", {"project": project})
        return str(getattr(done.content[0], "text", ""))

    return FunctionTool(list_tickets)
