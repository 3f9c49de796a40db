import { announce, h } from "../dom.js"
import { icon } from "../icons.js"

/** A button that copies what `text()` gives at that moment. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label }, icon("copy"))
  button.addEventListener("click", async () => {
    await copy(text())
    button.replaceChildren(icon("check"))
    announce("Copied")
    setTimeout(() => button.replaceChildren(icon("copy")), 1500)
  })
  return button
}

/** Browsers give the clipboard to secure origins only; on a plain LAN address the old way still works. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const field = h("textarea", { class: "off-screen", value: text })
  document.body.append(field)
  field.select()
  document.execCommand("copy")
  return field.remove()
}
