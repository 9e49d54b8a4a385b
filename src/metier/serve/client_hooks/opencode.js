// Asks Métier about each event of OpenCode that has to do with tools and skills. `metier protect opencode` writes this
// file, with the command that answers, and `metier protect opencode --remove` takes it away.
import { spawn } from "node:child_process"

const COMMAND = "__METIER_HOOK__"
const FAIL = "__METIER_FAIL__"
const SECONDS = 45

// Tools of its own with a name that looks like a server's and its tool's.
const OWN = [
  "apply_patch", "list_mcp_resource_templates", "list_mcp_resources", "plan_enter", "plan_exit", "read_mcp_resource",
]

class Refused extends Error {}

// The answer of the command; an error where it refuses, or where it gives none and nothing may run unchecked.
const ask = (event) =>
  new Promise((resolve, reject) => {
    let out = ""
    let said = ""
    const fail = (why) =>
      FAIL === "open" ? resolve({}) : reject(new Error(`Blocked: metier did not answer (${why}). Run: metier doctor`))
    const child = spawn(COMMAND, { shell: true, cwd: event.directory, windowsHide: true })
    // OpenCode itself waits for ever.
    const watchdog = setTimeout(() => {
      child.kill("SIGKILL")
      fail(`nothing for ${SECONDS} s`)
    }, SECONDS * 1000)
    child.on("error", (error) => fail(error.message))
    child.stdout.setEncoding("utf8").on("data", (text) => (out += text))
    child.stderr.setEncoding("utf8").on("data", (text) => (said += text))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
    child.on("close", (code) => {
      clearTimeout(watchdog)
      if (code === 2) return reject(new Error(said.trim() || "Blocked by metier."))
      if (code !== 0) return fail(`exit ${code}: ${said.trim()}`)
      try {
        const answer = out.trim() ? JSON.parse(out) : {}
        return answer.decision === "deny" ? reject(new Refused(answer.reason)) : resolve(answer)
      } catch (error) {
        return fail(error.message)
      }
    })
  })

export const Metier = async ({ client, directory }) => {
  // A subagent has a session of its own; the rules of the skills in the conversation are about it, too.
  const roots = new Map()
  const rootOf = async (id) => {
    if (!roots.has(id)) {
      const found = await client.session.get({ path: { id } }).catch(() => undefined)
      if (!found?.data) {
        if (FAIL === "open") return id
        throw new Error("Blocked: metier cannot tell which conversation this is. Run: metier doctor")
      }
      const parent = found.data.parentID
      roots.set(id, parent ? await rootOf(parent) : id)
    }
    return roots.get(id)
  }
  // The MCP server that a tool belongs to; OpenCode has both names in one.
  const serverOf = async (tool) => {
    if (!tool.includes("_") || OWN.includes(tool)) return undefined
    const found = await client.mcp.status().catch(() => undefined)
    const plain = (name) => name.replace(/[^a-zA-Z0-9_-]/g, "_")
    const names = Object.keys(found?.data ?? {}).filter((name) => tool.startsWith(`${plain(name)}_`))
    const [name] = names.sort((a, b) => b.length - a.length)
    return name && { server_name: name, tool_name: tool.slice(name.length + 1) }
  }
  const tell = async (hook, sessionID, fields) =>
    ask({ hook, directory, sessionID, conversation: await rootOf(sessionID), ...fields })
  // A prompt that fails says nothing to people; only a refusal ends it, and calls after it are refused in words.
  const tellPrompt = async (hook, sessionID, prompt) => {
    const told = async () => {
      // A subagent is prompted by the model.
      if ((await rootOf(sessionID)) === sessionID) await tell(hook, sessionID, { prompt })
    }
    await told().catch((error) => {
      if (error instanceof Refused) throw error
    })
  }
  const commanded = new Set()

  return {
    "command.execute.before": async (input) => {
      commanded.add(input.sessionID)
      await tellPrompt("command.execute.before", input.sessionID, `/${input.command} ${input.arguments ?? ""}`)
    },
    "chat.message": async ({ sessionID }, { parts }) => {
      // The text that a command stands for; the command itself was told.
      if (commanded.delete(sessionID)) return
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      await tellPrompt("chat.message", sessionID, texts.join("\n"))
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
      const fields = { tool, callID, args: output.args, mcp_context: await serverOf(tool) }
      const { args } = await tell("tool.execute.before", sessionID, fields)
      if (!args) return
      // The tool is given this object; another one in its place would not reach it.
      for (const name of Object.keys(output.args)) delete output.args[name]
      Object.assign(output.args, args)
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }) => {
      await tell("tool.execute.after", sessionID, { tool, callID, args })
    },
    event: async ({ event }) => {
      if (event.type !== "session.created" && event.type !== "session.deleted") return
      const { id, parentID } = event.properties.info
      // Nobody waits for an event, and it refuses nothing.
      if (!parentID) await tell(event.type, id, {}).catch(() => {})
    },
  }
}
