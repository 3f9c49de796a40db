import { h } from "../dom.js"

const PAGES = [
  ["status", "Status"],
  ["machines", "Machines"],
  ["models", "Models"],
  ["people", "People"],
  ["evolution", "Evolution"],
  ["logs", "Logs"],
]

/** The head of a page about the system: its title, the links to the other ones, and what else stands in the head. */
export function systemHead(current, ...content) {
  const [, title] = PAGES.find(([name]) => name === current)
  const links = PAGES.map(([name, words]) => h("a", { class: "tab", href: `#/${name}`, "aria-current": name === current && "page", testid: `tab-${name}` }, words))
  const tab = links.find((link) => link.hasAttribute("aria-current"))
  requestAnimationFrame(() => tab.scrollIntoView({ block: "nearest", inline: "center" })) // a phone shows some of them
  return h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, title), ...content, h("nav", { class: "tabs", "aria-label": "System" }, links))
}
