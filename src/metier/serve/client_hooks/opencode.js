// Written by `metier protect opencode`; `metier protect opencode --remove` takes it away.
import { spawnSync } from "node:child_process"

const COMMAND = "__METIER_HOOK__"
const FAIL = "__METIER_FAIL__"

function ask(event) {
  const done = spawnSync(COMMAND, { input: JSON.stringify(event), shell: true, timeout: 60000, encoding: "utf8" })
  if (done.status === 0 && !done.error) return done.stdout.trim() ? JSON.parse(done.stdout) : {}
  if (done.status === 2 || FAIL === "closed") throw new Error(done.stderr || "metier could not decide about this call")
  return {}
}

export const MetierPlugin = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const answer = ask({ event: "call", directory, ...input, args: output.args })
    if (answer.args) output.args = answer.args
  },
  "tool.execute.after": async (input, output) => {
    ask({ event: "result", directory, ...input, title: output.title })
  },
})
