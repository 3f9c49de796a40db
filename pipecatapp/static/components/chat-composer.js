import { attachment, MOST } from "../attachments.js"
import { forgetSettings } from "../conversation.js"
import { announce, h } from "../dom.js"
import { draftOf, keepDraft } from "../drafts.js"
import { icon } from "../icons.js"
import { mayListen } from "../talk/call.js"
import { Dictation } from "../talk/dictation.js"
import { draftChips } from "./attachment-chips.js"
import { PromptMenu } from "./prompt-menu.js"

const TEXT = ""
const FILES = "files"

/**
 * <chat-composer>: where one writes. Tells "say" with detail {text, attachments}, and "stop". The draft outlives the page: it is
 * kept until somebody calls `accepted()`, because what was said may not have arrived; `refused(text, reason, attachments)` gives
 * it back. Files come by the button, by paste and by drop; "/" opens the prompt library; the microphone writes what it hears.
 */
class ChatComposer extends HTMLElement {
  #files = []
  #dictation = null

  connectedCallback() {
    if (this.field) return
    this.field = h("textarea", { id: "say", rows: 1, "aria-label": "Your message", "placeholder": "Ask Hearth…", enterkeyhint: "send", testid: "composer", oninput: this.#grow, onkeydown: this.#key, onpaste: this.#paste })
    this.prompts = new PromptMenu(this.field, (text) => this.fill(text))
    this.button = h("button", { type: "submit", class: "send", testid: "send" })
    this.chooser = h("input", { type: "file", multiple: true, hidden: true, testid: "file-chooser", onchange: this.#chosen })
    this.attach = h("button", { type: "button", class: "icon-button small", "aria-label": "Attach files or images", title: "Attach files or images", testid: "attach", onclick: () => this.chooser.click() }, icon("attach"))
    this.speak = h("button", { type: "button", class: "icon-button small", testid: "dictate", onclick: this.#dictate })
    this.chips = h("ul", { class: "chips", "aria-label": "Attachments of your message", hidden: true, testid: "draft-attachments" })
    this.form = h("form", { class: "composer", onsubmit: this.#submit }, this.prompts.list, this.chips, h("div", { class: "composer-row" }, this.chooser, this.attach, this.field, this.speak, this.button))
    this.fault = h("p", { class: "fault composer-fault", role: "alert", testid: "not-sent", hidden: true })
    this.away = h("p", { class: "fine composer-fault", role: "status", hidden: true })
    this.append(this.fault, this.away, this.form)
    for (const [name, handle] of Object.entries({ dragover: this.#over, dragleave: this.#left, drop: this.#drop })) this.form.addEventListener(name, handle)
    this.field.value = draftOf(TEXT)
    this.busy = false
    this.#show(JSON.parse(draftOf(FILES) || "[]"))
    this.#listening(false)
    requestAnimationFrame(this.#grow)
  }

  disconnectedCallback() {
    this.#dictation?.cancel()
    this.#listening(false)
  }

  set busy(busy) {
    if (this.dataset.busy === String(busy)) return
    this.dataset.busy = busy
    this.button.replaceChildren(busy ? h("span", { class: "stop-square" }) : icon("send"))
    this.button.setAttribute("aria-label", busy ? "Stop answering" : "Send")
    this.button.title = busy ? "Stop answering" : "Send"
    this.#ready()
  }

  /** What the field is for now: a message, or the answer to a question. */
  set asks(question) {
    this.field.placeholder = question ? "Answer the question…" : "Ask Hearth…"
    this.field.setAttribute("aria-label", question ? "Your answer" : "Your message")
  }

  /** Why the conversation cannot be read now; null when it can. */
  set trouble(reason) {
    this.away.textContent = reason ?? ""
    this.away.hidden = !reason || !this.fault.hidden
  }

  fill(text) {
    this.field.value = text
    this.#grow()
    this.field.focus()
  }

  accepted() {
    if (!this.field.value && !this.#files.length) forgetSettings()
    this.#keepText()
    this.#keepFiles()
  }

  /** Gives back what was not sent, before what was written since then. */
  refused(text, reason, files = []) {
    if (text) this.fill([text, this.field.value].filter(Boolean).join("\n\n"))
    if (files.length) this.#show([...files, ...this.#files])
    this.#complain(reason)
  }

  #complain(reason) {
    this.fault.textContent = reason
    this.fault.hidden = false
  }

  /** Forgets a draft that the server has, though its answer was lost on the way. */
  arrived(text) {
    if (this.field.value.trim() !== text) return
    this.fill("")
    this.#show([])
  }

  #grow = () => {
    this.#fit()
    this.fault.hidden = true
    this.#keepText()
    this.#ready()
  }

  /** Files give way to the text where the browser has no room for both: they last as long as this page. */
  #keepText() {
    if (keepDraft(TEXT, this.field.value)) return
    keepDraft(FILES, "")
    keepDraft(TEXT, this.field.value)
  }

  #keepFiles() {
    if (!keepDraft(FILES, this.#files.length ? JSON.stringify(this.#files) : "")) keepDraft(FILES, "")
  }

  #fit() {
    this.field.style.height = "auto"
    this.field.style.height = `${Math.min(this.field.scrollHeight, 200)}px`
  }

  #ready() {
    this.button.disabled = this.dataset.busy !== "true" && !this.field.value.trim() && !this.#files.length
  }

  #key = (event) => {
    if (this.prompts.key(event) || event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    if (this.dataset.busy !== "true") this.form.requestSubmit()
  }

  #submit = (event) => {
    event.preventDefault()
    if (this.dataset.busy === "true") return this.dispatchEvent(new Event("stop"))
    const text = this.field.value.trim()
    const attachments = this.#files
    if (!text && !attachments.length) return
    this.field.value = ""
    this.#files = []
    this.#draw()
    this.fault.hidden = true
    this.#fit()
    this.#ready()
    this.dispatchEvent(new CustomEvent("say", { detail: { text, attachments } }))
  }

  /** Reads files into the draft; those that cannot be attached are named with the reason. */
  async #add(files) {
    const found = await Promise.allSettled([...files].map(attachment))
    const good = found.flatMap(({ value }) => value ?? [])
    const faults = found.flatMap(({ reason }) => reason?.message ?? [])
    if (this.#files.length + good.length > MOST) faults.push(`A message has at most ${MOST} attachments.`)
    this.#show([...this.#files, ...good].slice(0, MOST))
    if (good.length) announce(`Attached: ${good.map(({ name }) => name).join(", ")}`)
    if (faults.length) this.#complain(faults.join(" "))
    this.field.focus()
  }

  #show(files) {
    this.#files = files
    this.#keepFiles()
    this.#draw()
    this.fault.hidden = true
    this.#ready()
  }

  #draw() {
    this.chips.hidden = !this.#files.length
    const remove = (at) => {
      this.#show(this.#files.filter((_, i) => i !== at))
      this.field.focus()
    }
    this.chips.replaceChildren(...draftChips(this.#files, remove))
  }

  #chosen = async () => {
    const files = [...this.chooser.files]
    this.chooser.value = ""
    await this.#add(files)
  }

  #paste = (event) => {
    if (!event.clipboardData.files.length) return
    event.preventDefault()
    this.#add(event.clipboardData.files)
  }

  #over = (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return
    event.preventDefault()
    this.form.dataset.drop = "over"
  }

  #left = () => delete this.form.dataset.drop

  #drop = (event) => {
    this.#left()
    if (!event.dataTransfer.files.length) return
    event.preventDefault()
    this.#add(event.dataTransfer.files)
  }

  /** Starts a recording, or ends it and writes its words into the field. */
  #dictate = async () => {
    if (!mayListen()) return this.#complain("Browsers give a microphone only to pages that come by https or from this machine. The page “Talk” says how to get there.")
    const dictation = this.#dictation
    if (!dictation) return this.#listen()
    this.#listening(false, { busy: true })
    try {
      const words = await dictation.stop()
      if (words) this.fill([this.field.value.trimEnd(), words].filter(Boolean).join(" "))
      else this.#complain("No words were heard.")
    } catch (error) {
      this.#complain(error.message)
    }
    this.#listening(false)
  }

  async #listen() {
    const dictation = new Dictation()
    try {
      await dictation.start(this.#dictate)
      this.#dictation = dictation
      this.fault.hidden = true
      this.#listening(true)
    } catch (error) {
      this.#complain(error.message)
    }
  }

  #listening(listening, { busy = false } = {}) {
    if (!listening) this.#dictation = null
    const label = listening ? "Stop and write what you said" : busy ? "Writing what you said" : "Dictate"
    this.speak.replaceChildren(icon(listening ? "stop" : "talk"))
    this.speak.title = label
    this.speak.setAttribute("aria-label", label)
    this.speak.disabled = busy
    this.speak.dataset.on = String(listening)
  }
}

export const hasDraft = () => Boolean(draftOf(TEXT).trim() || draftOf(FILES))

customElements.define("chat-composer", ChatComposer)
