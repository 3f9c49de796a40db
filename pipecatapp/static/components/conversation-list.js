import { all, deleteConversation, exportAddress, listConversations, pinConversation, renameConversation } from "../conversation.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { ago, count } from "../format.js"
import { icon } from "../icons.js"
import { chatAddress } from "../router.js"
import { waiting } from "../waiting.js"
import { confirmed, openDialog } from "./dialog.js"
import { menuButton } from "./menu.js"

const LOOK_SECONDS = 5
const TYPING = 250 // milliseconds without a key until a search begins
const PAGE = 100 // conversations that are shown first
const MOST = 500 // that the server lists at most

/**
 * <conversation-list current="id">: past conversations, newest first, with a search, a menu for each, and the button for a
 * new one. `text` is what is searched; tells "find" when a person has changed it.
 */
class ConversationList extends HTMLElement {
  #shown = ""
  #limit = PAGE
  #timer = 0
  #stop = () => {}

  connectedCallback() {
    if (!this.list) {
      this.search = h("input", { type: "search", "aria-label": "Search in conversations", placeholder: "Search", maxlength: 200, testid: "conversation-search", oninput: this.#typed })
      this.fault = h("p", { class: "fault", role: "alert", hidden: true, testid: "conversation-fault" })
      this.list = h("ul", { class: "conversations", testid: "conversations" })
      this.append(h("a", { class: "button new-chat", href: "#/chat", testid: "new-chat" }, icon("plus"), "New conversation"), h("div", { class: "search" }, icon("search"), this.search), this.fault, this.list, h("a", { class: "fine notes-link", href: "#/notes", testid: "notes-link" }, "Notes"))
    }
    all.addEventListener("change", this.#load)
    waiting.addEventListener("change", this.#mark)
    this.#stop = every(LOOK_SECONDS, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
    clearTimeout(this.#timer)
    all.removeEventListener("change", this.#load)
    waiting.removeEventListener("change", this.#mark)
  }

  attributeChangedCallback() {
    this.#mark()
  }

  get text() {
    return this.search.value.trim()
  }

  set text(text) {
    if (this.text === text) return
    this.search.value = text
    this.#limit = PAGE
    this.#load()
  }

  #typed = () => {
    clearTimeout(this.#timer)
    this.#limit = PAGE
    this.#timer = setTimeout(async () => {
      this.dispatchEvent(new Event("find"))
      await this.#load()
      if (this.text) announce(`${this.querySelectorAll("a[data-id]").length} conversations`)
    }, TYPING)
  }

  /** Reads the list; it is drawn when it is different and nobody is choosing in a menu or a dialog. */
  #load = async () => {
    const text = this.text
    try {
      const found = await listConversations(text, this.#limit)
      const shown = JSON.stringify([text, found])
      if (text !== this.text || shown === this.#shown || this.#isBusy()) return
      this.#shown = shown
      this.#draw(found, text)
    } catch (error) {
      if (text !== this.text) return
      this.#shown = ""
      this.list.replaceChildren(h("li", { class: "fine none" }, error.message))
    }
  }

  #isBusy() {
    return document.querySelector("dialog[open], conversation-list :popover-open") !== null
  }

  #draw({ conversations: found, total }, text) {
    const { id, testid } = document.activeElement?.closest?.("conversation-list li") ? document.activeElement.dataset : {}
    const nothing = text ? "No conversation has these words." : "Your conversations will be kept here."
    this.list.replaceChildren(...(found.length ? found.map((each) => this.#row(each, text)) : [h("li", { class: "fine none" }, nothing)]), ...(found.length < total ? [this.#rest(found.length, total)] : []))
    this.#mark()
    if (testid) (this.#button(id, testid) ?? this.search).focus()
  }

  /** Says that the list is longer than what is shown. */
  #rest(shown, total) {
    const more = async () => {
      this.#limit = MOST
      await this.#load()
      this.querySelectorAll('[data-testid="conversation"]')[shown]?.focus()
    }
    const way = shown < MOST ? h("button", { type: "button", class: "button small", testid: "conversations-more", onclick: more }, "Show more") : "Search to find older ones."
    return h("li", { class: "fine none conversations-rest", testid: "conversations-rest" }, h("span", {}, `${count(shown)} of ${count(total)} conversations. `), way)
  }

  /** A link or a button in the row of a conversation. */
  #button(id, testid) {
    return [...this.list.querySelectorAll(`[data-testid="${testid}"]`)].find((each) => each.dataset.id === id)
  }

  #row(each, text) {
    const { id, updated, pinned } = each
    const title = each.title || "Untitled"
    const items = [
      { name: "rename", label: "Rename…", act: () => this.#rename(id, title) },
      { name: "pin", label: pinned ? "Unpin" : "Pin", act: () => this.#does(() => pinConversation(id, !pinned), pinned ? "Unpinned" : "Pinned") },
      { name: "markdown", label: "Export as Markdown", href: exportAddress(id, "markdown") },
      { name: "json", label: "Export as JSON", href: exportAddress(id, "json") },
      { name: "delete", label: "Delete…", kind: "danger", act: () => this.#delete(id, title) },
    ]
    const [button, menu] = menuButton({ label: `Actions for “${title}”`, testid: "conversation-menu", items, children: icon("more") })
    button.dataset.id = id
    const link = h("a", { class: "conversation", href: chatAddress(id, text), dataset: { id }, testid: "conversation" }, h("span", { class: "conversation-title" }, title), h("span", { class: "fine" }, pinned && h("span", { class: "conversation-pinned" }, icon("pin"), "Pinned · "), h("span", { class: "conversation-asks", hidden: true }, "Waits for you · "), ago(updated)))
    return h("li", { class: "conversation-row" }, link, button, menu)
  }

  /** Marks the one that is shown, and those that wait for an answer. */
  #mark = () => {
    const asking = new Set(waiting.runs.map((run) => run.conversation))
    for (const link of this.querySelectorAll("a[data-id]")) {
      link.querySelector(".conversation-asks").hidden = !asking.has(link.dataset.id)
      if (link.dataset.id === this.getAttribute("current")) link.setAttribute("aria-current", "page")
      else link.removeAttribute("aria-current")
    }
  }

  async #rename(id, title) {
    const field = h("input", { type: "text", value: title, required: true, maxlength: 200, autofocus: true, testid: "new-title" })
    const content = h("label", { class: "dialog-content" }, "Title", field)
    const chosen = await openDialog({ title: "Rename the conversation", content, actions: [{ name: "save", label: "Rename", kind: "primary" }], close: "Cancel" })
    if (chosen) await this.#does(() => renameConversation(id, field.value), `Renamed to ${field.value}`)
  }

  async #delete(id, title) {
    const words = `“${title}” is removed with its questions and answers, the runs behind them, and the files that these made. An answer that is on its way is stopped. Notes that the agent saved stay under Notes. This cannot be undone.`
    if (!(await confirmed("Delete this conversation?", words, "Delete"))) return
    await this.#does(async () => {
      const { notes } = await deleteConversation(id)
      return notes ? `The conversation is deleted. ${notes === 1 ? "A note" : `${notes} notes`} saved in it stay${notes === 1 ? "s" : ""}.` : "The conversation is deleted."
    })
  }

  /** Does something and says so, or why it was refused. */
  async #does(work, said = "") {
    try {
      this.fault.hidden = true
      announce((await work()) ?? said)
    } catch (error) {
      this.fault.textContent = error.message
      this.fault.hidden = false
    }
  }
}

customElements.define("conversation-list", ConversationList)
