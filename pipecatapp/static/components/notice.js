import { h } from "../dom.js"
import { icon } from "../icons.js"

/** Something went wrong: what, why, and the button that may mend it. */
export function problem(title, reason, action) {
  return h("div", { class: "notice", role: "alert", testid: "problem" }, icon("warning"), h("div", { class: "notice-words" }, h("strong", {}, title), reason && h("p", {}, reason), action))
}

/** Nothing is here yet, and what to do about it. */
export function emptyState(name, title, words, action) {
  return h("div", { class: "empty", testid: "empty" }, icon(name), h("p", { class: "empty-title" }, title), h("p", {}, words), action)
}

/** Grey shapes where rows will be; read out as one word. */
export function loading(rows = 4) {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "off-screen" }, "Loading"), Array.from({ length: rows }, () => h("div", { class: "loading-row" })))
}
