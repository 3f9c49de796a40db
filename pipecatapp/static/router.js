// Hash routes: the server knows only `/`. A page is a custom element; the parts of the address are its `params`.

const ROUTES = [
  [/^#\/chat(?:\/([^/]+))?$/, "chat-page", "Chat", ["conversation"]],
  [/^#\/notes$/, "notes-page", "Notes", []],
  [/^#\/knowledge$/, "knowledge-page", "Knowledge", []],
  [/^#\/talk$/, "talk-page", "Talk", []],
  [/^#\/runs$/, "runs-page", "Runs", []],
  [/^#\/runs\/([^/]+)$/, "run-page", "Run", ["run"]],
  [/^#\/workflows$/, "workflows-page", "Workflows", []],
  [/^#\/workflows\/([^/]+)\/edit$/, "editor-page", "Edit a workflow", ["workflow"]],
  [/^#\/workflows\/(.+)$/, "workflow-page", "Workflow", ["workflow"]],
  [/^#\/tools$/, "tools-page", "Tools", []],
  [/^#\/triggers$/, "triggers-page", "Triggers", []],
  [/^#\/explore$/, "explore-page", "Explore", []],
  [/^#\/tools\/(.+)$/, "tool-page", "Tool", ["tool"]],
  [/^#\/evolution(?:\/([^/]+))?$/, "evolution-page", "Evolution", ["campaign"]],
  [/^#\/status$/, "status-page", "Status", []],
  [/^#\/logs$/, "logs-page", "Logs", []],
  [/^#\/models$/, "models-page", "Models", []],
  [/^#\/machines$/, "machines-page", "Machines", []],
  [/^#\/people$/, "people-page", "People", []],
]

/** Pages that the navigation shows as one place, with tabs between them. */
const SYSTEM = new Set(["status", "machines", "models", "knowledge", "people", "evolution", "logs"])
const STARTED = new Set(["tools", "triggers", "explore"]) // pages beside that of the workflows

/** The route of a hash: {page, title, section, params}, with its query among the params; null for an address without a page. */
export function match(hash) {
  const [address, query] = apart(hash === "" || hash === "#" || hash === "#/" ? "#/chat" : hash)
  for (const [pattern, page, title, names] of ROUTES) {
    const found = pattern.exec(address)
    if (!found) continue
    const parts = found.slice(1).map(decoded)
    if (parts.includes(null)) return null
    const params = { ...Object.fromEntries(new URLSearchParams(query)), ...Object.fromEntries(names.map((name, i) => [name, parts[i]])) }
    if (page === "run-page" && params.with) return { page: "compare-page", title: "Compare two runs", section: "runs", params }
    const [, first] = address.split("/")
    return { page, title, section: SYSTEM.has(first) ? "status" : STARTED.has(first) ? "workflows" : first, params }
  }
  return null
}

function apart(hash) {
  const mark = hash.indexOf("?")
  return mark < 0 ? [hash, ""] : [hash.slice(0, mark), hash.slice(mark + 1)]
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
export const compareAddress = (run, other) => `${runAddress(run)}?with=${encodeURIComponent(other)}`
export const runsAddress = (filters) => (Object.keys(filters).length ? `#/runs?${new URLSearchParams(filters)}` : "#/runs")
export const evolutionAddress = (campaign) => `#/evolution/${encodeURIComponent(campaign)}`
export const workflowAddress = (id) => `#/workflows/${encodeURIComponent(id)}`
export const editorAddress = (id) => `${workflowAddress(id)}/edit`
export const toolAddress = (name) => `#/tools/${encodeURIComponent(name)}`
export const knowledgeAddress = (params) => (Object.keys(params).length ? `#/knowledge?${new URLSearchParams(params)}` : "#/knowledge")
/** The chat: a new one without an id; `text` is what the list of conversations is searched by. */
export const chatAddress = (id = "", text = "") => `#/chat${id && `/${encodeURIComponent(id)}`}${text && `?${new URLSearchParams({ text })}`}`

/**
 * Changes the address without a new page: for what a page shows of itself (an open conversation, a chosen step).
 * `state` is kept with the address, for the page that Back leads to: it reads `history.state`.
 */
export function rewrite(address, state = null) {
  history.replaceState(state, "", address)
}

let words = "Hearth"
let count = 0

export function setTitle(title) {
  words = `${title} · Hearth`
  document.title = count ? `(${count}) ${words}` : words
}

/** Puts the number of open questions before the title of every page. */
export function setTitleCount(number) {
  count = number
  document.title = count ? `(${count}) ${words}` : words
}
