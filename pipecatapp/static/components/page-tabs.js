import { h } from "../dom.js"

const SYSTEM = [
  ["status", "Status"],
  ["machines", "Machines"],
  ["models", "Models"],
  ["knowledge", "Knowledge"],
  ["people", "People"],
  ["evolution", "Evolution"],
  ["logs", "Logs"],
]

const WORKFLOWS = [
  ["workflows", "Workflows"],
  ["tools", "Tools"],
  ["triggers", "Triggers"],
  ["explore", "Explore"],
]

/** The head of a page about the system: its title, the links to the other ones, and what else stands in the head. */
export const systemHead = (current, ...content) => head("System", SYSTEM, current, content)

/** The same for the pages of what one can start. */
export const workflowsHead = (current, ...content) => head("What one can start", WORKFLOWS, current, content)

function head(label, pages, current, content) {
  const [, title] = pages.find(([name]) => name === current)
  const links = pages.map(([name, words]) => h("a", { class: "tab", href: `#/${name}`, "aria-current": name === current && "page", testid: `tab-${name}` }, words))
  const tab = links.find((link) => link.hasAttribute("aria-current"))
  const tabs = h("nav", { class: "tabs", "aria-label": label }, links)
  requestAnimationFrame(() => (tabs.scrollLeft = tab.offsetLeft + (tab.offsetWidth - tabs.clientWidth) / 2)) // a phone shows some of them
  return h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, title), ...content, tabs)
}
