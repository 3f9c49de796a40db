// Hash routes: the server knows only `/`. A page is a custom element; the parts of the address are its `params`.

const ROUTES = [
  [/^#\/chat(?:\/([^/?]+))?$/, "chat-page", "Chat", ["conversation"]],
  [/^#\/talk$/, "talk-page", "Talk", []],
  [/^#\/runs$/, "runs-page", "Runs", []],
  [/^#\/runs\/([^/?]+)(?:\?step=(.+))?$/, "run-page", "Run", ["run", "step"]],
  [/^#\/workflows$/, "workflows-page", "Workflows", []],
  [/^#\/workflows\/([^?]+)$/, "workflow-page", "Workflow", ["workflow"]],
  [/^#\/status$/, "status-page", "Status", []],
  [/^#\/logs$/, "logs-page", "Logs", []],
]

/** The route of a hash: {page, title, section, params}; null for an address that nobody serves. */
export function match(hash) {
  const address = hash === "" || hash === "#" || hash === "#/" ? "#/chat" : hash
  for (const [pattern, page, title, names] of ROUTES) {
    const found = pattern.exec(address)
    if (!found) continue
    const parts = found.slice(1).map(decoded)
    if (parts.includes(null)) return null
    const params = Object.fromEntries(names.map((name, i) => [name, parts[i]]))
    return { page, title, section: address.split(/[/?]/)[1], params }
  }
  return null
}

/** A part of an address as it was written; null where it is none, such as a lone "%". */
function decoded(part) {
  try {
    return part && decodeURIComponent(part)
  } catch {
    return null
  }
}

export const runAddress = (run, step) => `#/runs/${encodeURIComponent(run)}${step ? `?step=${encodeURIComponent(step)}` : ""}`
export const workflowAddress = (id) => `#/workflows/${encodeURIComponent(id)}`
export const chatAddress = (id) => `#/chat/${encodeURIComponent(id)}`

/** Changes the address without a new page: for what a page shows of itself (an open conversation, a chosen step). */
export function rewrite(address) {
  history.replaceState(null, "", address)
}

export function setTitle(title) {
  document.title = `${title} · Hearth`
}
