import { h } from "../dom.js"
import { copyButton } from "./copy-button.js"

/**
 * Opens a dialog and resolves with the name of the action that was pressed, or null. Each of `actions` is
 * {name, label, kind}; Escape and Close give null. Focus returns to where it was.
 */
export function openDialog({ title, content, actions = [], close = "Close", wide = false }) {
  const buttons = actions.map(({ name, label, kind = "" }) => h("button", { type: "submit", value: name, class: `button ${kind}`, testid: `dialog-${name}` }, label))
  const form = h("form", { method: "dialog", class: "dialog-body" }, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "button", testid: "dialog-close", onclick: () => dialog.close("") }, close), buttons))
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title", testid: "dialog", dataset: { wide } }, form)
  document.body.append(dialog)
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove()
      resolve(dialog.returnValue || null)
    })
    dialog.showModal()
  })
}

/** Asks before something that cannot be undone; true when it is to be done. */
export async function confirmed(title, words, label) {
  return (await openDialog({ title, content: h("p", {}, words), actions: [{ name: "confirm", label, kind: "danger" }], close: "Cancel" })) === "confirm"
}

/** A text of lines that can be copied, such as a document. */
export function textBox(text, label) {
  return h("div", { class: "text-box" }, copyButton(() => text), h("pre", { tabindex: "0", "aria-label": label }, text))
}

/** A unified diff, its lines marked by what they do. */
export function diffBox(text, label) {
  const lines = text.split("\n").map((line) => h("span", { class: "diff-line", dataset: { kind: kindOf(line) } }, `${line}\n`))
  return h("div", { class: "text-box" }, copyButton(() => text), h("pre", { tabindex: "0", "aria-label": label, testid: "diff" }, lines))
}

function kindOf(line) {
  if (/^(diff|index|---|\+\+\+|@@|new file|deleted file)/.test(line)) return "head"
  return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same"
}
