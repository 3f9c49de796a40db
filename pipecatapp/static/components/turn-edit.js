import { h } from "../dom.js"
import { keepDraft, keepField } from "../drafts.js"

/**
 * The question of a turn as a form. Calls `send(text)` with what was written, and stays open with the reason when that rejects.
 * Resolves when it was sent, or left: by Cancel, by Escape, or because nothing is different. Shift+Enter begins a new line. Until then
 * the text is kept as a draft under `name`, with which the next form begins.
 */
export function editQuestion(question, place, name, send) {
  return new Promise((resolve) => {
    const field = h("textarea", { class: "turn-field", rows: 1, "aria-label": "Your question", value: question, testid: "edit-text", onkeydown: key, oninput: fit })
    const fault = h("p", { class: "fault", role: "alert", testid: "edit-fault", hidden: true })
    const cancel = h("button", { type: "button", class: "button", testid: "edit-cancel", onclick: end }, "Cancel")
    const sends = h("button", { type: "submit", class: "button primary", testid: "edit-send" }, "Send")
    const form = h("form", { class: "turn-edit", "aria-label": "Edit your question", testid: "edit-form", onsubmit: submit }, field, fault, h("div", { class: "row" }, cancel, sends))
    keepField(field, name)
    place.append(form)
    fit()
    field.focus()
    field.setSelectionRange(field.value.length, field.value.length)

    function fit() {
      field.style.height = "auto"
      field.style.height = `${Math.min(field.scrollHeight + 2, 320)}px`
    }

    function key(event) {
      if (event.key === "Escape") {
        event.stopPropagation() // the page behind has its own use of Escape
        end()
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault()
        form.requestSubmit()
      }
    }

    async function submit(event) {
      event.preventDefault()
      const text = field.value.trim()
      if (!text || sends.disabled) return
      if (text === question.trim()) return end()
      sends.disabled = true
      try {
        await send(text)
        end()
      } catch (error) {
        fault.textContent = error.message
        fault.hidden = sends.disabled = false
      }
    }

    function end() {
      keepDraft(name, "")
      form.remove()
      resolve()
    }
  })
}
