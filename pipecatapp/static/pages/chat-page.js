import "../components/chat-composer.js"
import "../components/chat-thread.js"
import "../components/context-gauge.js"
import "../components/conversation-list.js"
import "../components/demo-notice.js"
import "../components/model-picker.js"
import "../components/run-panel.js"
import { askSettings } from "../components/chat-settings.js"
import { answerQuestion } from "../components/question-form.js"
import { conversation, newConversation } from "../conversation.js"
import { announce, h } from "../dom.js"
import { icon } from "../icons.js"
import { chatAddress, rewrite } from "../router.js"

const WIDE = matchMedia("(min-width: 1100px)")

/** The conversation, with the list of others on one side and the run behind the answer on the other. */
class ChatPage extends HTMLElement {
  #current = null
  #state = ""
  #address = "" // the conversation that the address names; none before the first message of a new one
  /** What was sent and refused, or written before a reload: the server may have it all the same, as a turn after a run. */
  #unsure = { text: "", after: "" }

  connectedCallback() {
    this.thread = h("chat-thread", {
      onidea: (event) => this.composer.fill(event.detail.text),
      onagain: ({ detail }) => {
        this.#choose()
        detail.sent = this.#current.again(detail.turn, detail.text)
      },
      onversion: (event) => this.#version(event.detail.run),
      onbranch: (event) => this.#branch(event.detail.run),
      onstop: () => this.#stop(),
      onanswered: () => this.#current.look(),
      oninspect: (event) => this.#inspect(event.detail.run),
    })
    this.composer = h("chat-composer", { onsay: (event) => this.#say(event.detail), onstop: () => this.#stop() })
    this.models = h("model-picker", { onchoose: () => this.#set({ ...this.#current.settings, model: this.models.value }) })
    this.tune = h("button", { type: "button", class: "icon-button", "aria-label": "How this conversation is answered", title: "How this conversation is answered", testid: "settings", onclick: this.#settings }, icon("tune"))
    this.gauge = h("context-gauge", { hidden: true })
    this.list = h("conversation-list", { onfind: () => rewrite(chatAddress(this.#address, this.list.text)) })
    this.panel = h("run-panel")
    this.side = h("aside", { class: "chat-side", id: "chat-side", "aria-label": "Conversations" }, this.list)
    this.runs = h("aside", { class: "chat-run", id: "chat-run", "aria-label": "Run behind the answer", testid: "run-panel" }, this.panel)
    this.sideToggle = this.#toggle("list", "Conversations", "chat-side", "side")
    this.runToggle = this.#toggle("graph", "Steps", "chat-run", "run")
    const head = h("header", { class: "chat-head" }, this.sideToggle, h("h1", { tabindex: "-1" }, "Chat"), this.gauge, this.models, this.tune, this.runToggle)
    this.append(this.side, h("section", { class: "chat-main", "aria-label": "Chat" }, head, h("demo-notice"), this.thread, this.composer), this.runs)
    this.addEventListener("keydown", this.#escape)
    WIDE.addEventListener("change", this.#narrowed)
    this.#open("run", WIDE.matches && localStorage.getItem("hearth.panel") !== "closed")
    this.#open("side", false)
    this.#unsure = { text: this.composer.field.value.trim(), after: "" }
    this.enter(this.params ?? {})
  }

  disconnectedCallback() {
    this.#leave()
    WIDE.removeEventListener("change", this.#narrowed)
  }

  /** Side by side becomes one above the other: the conversation goes on top. */
  #narrowed = () => this.#open("run", WIDE.matches && localStorage.getItem("hearth.panel") !== "closed")

  /** Called with new parameters while this page stays. */
  enter({ conversation: id, text = "" }) {
    this.#leave()
    this.#address = id ?? ""
    this.#current = id ? conversation(id) : newConversation()
    this.#current.addEventListener("change", this.#show)
    this.#current.follow()
    this.#state = ""
    if (!WIDE.matches) this.#open("run", false)
    this.#open("side", false)
    this.panel.follow(this.#current.turns.at(-1)?.run ?? null)
    this.list.setAttribute("current", this.#current.id)
    this.list.text = text
    this.#show()
    if (matchMedia("(hover: hover)").matches) requestAnimationFrame(() => this.composer.field.focus())
  }

  #leave() {
    this.#current?.removeEventListener("change", this.#show)
    this.#current?.leave()
  }

  /** What was written answers the question that is open; without one it is a new turn. */
  async #say({ text, attachments }) {
    this.#address = this.#current.id
    rewrite(chatAddress(this.#address, this.list.text))
    const { question } = this.#current
    try {
      if (question && attachments.length) throw new Error("Files cannot be part of the answer to a question. Remove them first.")
      this.#choose()
      if (question) await answerQuestion(question.run, question.path, question.question, text)
      else await this.#current.send(text, attachments)
      this.composer.accepted()
      if (question) await this.#current.look()
    } catch (error) {
      this.composer.refused(text, error.message, attachments)
      this.#unsure = { text, after: this.#current.turns.at(-1)?.run ?? "" }
    }
  }

  /** The model that the picker shows answers the next turn. */
  #choose() {
    this.#current.settings = { ...this.#current.settings, model: this.models.value }
  }

  #set(settings) {
    return this.#does(() => this.#current.set(settings))
  }

  #settings = async () => {
    const current = this.#current
    const found = await askSettings(current.settings, this.models.takes)
    if (found && current === this.#current) await this.#set({ ...found, model: this.models.value })
    if (found) announce("Saved")
  }

  #stop() {
    return this.#does(() => this.#current.stop())
  }

  /** Does something, and says why it was refused. */
  async #does(work) {
    try {
      return await work()
    } catch (error) {
      this.composer.refused("", error.message)
    }
  }

  async #version(run) {
    await this.#does(() => this.#current.show(run))
    const { turns } = this.#current
    const turn = turns.find((each) => each.run === run)
    if (turn) announce(`Version ${turn.versions.indexOf(run) + 1} of ${turn.versions.length}`)
    this.thread.focusVersions(run)
  }

  async #branch(run) {
    const id = await this.#does(() => this.#current.branch(run))
    if (!id) return
    location.hash = chatAddress(id, this.list.text)
    announce("A new conversation that begins with these messages")
  }

  #show = () => {
    if (this.#current.deleted) return this.#afterDeletion()
    const last = this.#current.turns.at(-1)
    this.thread.show(this.#current)
    this.gauge.show(this.#current.context)
    this.models.value = this.#current.settings.model ?? null
    this.tune.dataset.set = String(["temperature", "max_tokens", "system"].some((name) => (this.#current.settings[name] ?? "") !== ""))
    this.composer.busy = this.#current.busy
    this.composer.asks = this.#current.question
    this.composer.trouble = this.#current.error
    if (last?.run > this.#unsure.after && last.user === this.#unsure.text) this.composer.arrived(last.user)
    const state = last ? `${last.state} ${last.run}` : ""
    if (state !== this.#state) this.#turned(last)
    this.#state = state
  }

  /** The conversation is gone: a new one, with what was being written. */
  #afterDeletion() {
    announce("This conversation was deleted.")
    rewrite(chatAddress("", this.list.text))
    this.enter({ text: this.list.text })
  }

  #turned(last) {
    if (last?.run) this.panel.follow(last.run)
    if (this.#state === "" && last?.state !== "running") return
    if (last?.state === "done") announce(`Hearth answered: ${last.text}`)
    if (last?.state === "waiting") announce(`Hearth asks: ${this.#current.question?.question.text}`)
    if (last?.state === "running" && !last.run) announce("Hearth is thinking")
  }

  #inspect(run) {
    this.panel.follow(run)
    this.#open("run", true)
  }

  #toggle(name, label, controls, what) {
    const flip = () => {
      const open = this.dataset[what] !== "open"
      this.#open(what, open)
      if (what === "run" && WIDE.matches) localStorage.setItem("hearth.panel", open ? "open" : "closed")
    }
    return h("button", { type: "button", class: "icon-button toggle", "aria-label": label, title: label, "aria-controls": controls, testid: `toggle-${what}`, onclick: flip }, icon(name))
  }

  #open(what, open) {
    this.dataset[what] = open ? "open" : "closed"
    const button = what === "side" ? this.sideToggle : this.runToggle
    button.setAttribute("aria-expanded", String(open))
  }

  #escape = (event) => {
    if (event.key !== "Escape" || WIDE.matches) return
    this.#open("side", false)
    this.#open("run", false)
  }
}

customElements.define("chat-page", ChatPage)
