import { h } from "../dom.js"
import { copyButton } from "./copy-button.js"

const LONG = 700

/**
 * A value for people: text as text, a chat as its messages, anything else as a tree that folds.
 * The copy button gives the text itself, or the JSON.
 */
export function jsonView(value) {
  const copied = () => (typeof value === "string" ? value : JSON.stringify(value, null, 2))
  return h("div", { class: "value" }, copyButton(copied), body(value))
}

function body(value) {
  if (isChat(value)) return h("div", { class: "value-chat" }, value.map(message))
  if (typeof value === "string") return long(value)
  if (value && typeof value === "object" && Object.keys(value).length) return h("div", { class: "tree" }, entries(value, 0))
  return h("span", { class: "leaf", dataset: { type: typeOf(value) } }, empty(value))
}

const isChat = (value) => Array.isArray(value) && value.length > 0 && value.every((each) => typeof each?.role === "string")

function message({ role, content, tool_calls: calls, ...rest }) {
  const extra = calls?.length ? { tool_calls: calls } : rest.tool_call_id ? { tool_call_id: rest.tool_call_id } : null
  return h("div", { class: "value-message" }, h("span", { class: "value-role" }, role), content ? (typeof content === "string" ? long(content) : body(content)) : null, extra && h("div", { class: "tree" }, entries(extra, 1)))
}

/** Text of any length; what is very long comes folded. */
function long(text) {
  if (!text) return h("span", { class: "leaf", dataset: { type: "null" } }, "empty text")
  if (text.length <= LONG) return h("p", { class: "value-text" }, text)
  const shown = h("p", { class: "value-text" }, `${text.slice(0, LONG)}…`)
  const more = h("button", { type: "button", class: "link-button" }, `Show all ${text.length.toLocaleString()} characters`)
  more.addEventListener("click", () => {
    shown.textContent = text
    more.remove()
  })
  return h("div", {}, shown, more)
}

const entries = (value, depth) => Object.entries(value).map(([key, each]) => entry(key, each, depth))

function entry(key, value, depth) {
  const name = h("span", { class: "tree-key" }, key)
  if (!value || typeof value !== "object" || !Object.keys(value).length) {
    if (typeof value === "string" && (value.length > 60 || value.includes("\n"))) return h("div", { class: "tree-block" }, name, long(value))
    const text = typeof value === "string" && value ? long(value) : h("span", { class: "leaf", dataset: { type: typeOf(value) } }, empty(value))
    return h("div", { class: "tree-row" }, name, text)
  }
  if (isChat(value)) return h("div", { class: "tree-block" }, name, h("div", { class: "value-chat" }, value.map(message)))
  const size = Array.isArray(value) ? `${value.length} ${value.length === 1 ? "item" : "items"}` : Object.keys(value).slice(0, 4).join(", ")
  const fold = h("details", { class: "tree-fold", open: depth < 2 && JSON.stringify(value).length < LONG }, h("summary", {}, name, h("span", { class: "tree-size" }, size)))
  const fill = () => fold.open && fold.children.length === 1 && fold.append(h("div", { class: "tree" }, entries(value, depth + 1)))
  fold.addEventListener("toggle", fill)
  fill()
  return fold
}

const typeOf = (value) => (value === null ? "null" : typeof value)

function empty(value) {
  if (value === null || value === undefined) return "nothing"
  if (typeof value === "object") return Array.isArray(value) ? "no items" : "empty"
  return value === "" ? "empty text" : String(value)
}
