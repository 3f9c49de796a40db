import { h } from "../dom.js"
import { ago } from "../format.js"
import { all, listConversations } from "../conversation.js"
import { icon } from "../icons.js"
import { chatAddress } from "../router.js"
import { waiting } from "../waiting.js"

/** <conversation-list current="id">: past conversations, newest first, and the button for a new one. */
class ConversationList extends HTMLElement {
  static observedAttributes = ["current"]

  connectedCallback() {
    if (!this.list) {
      this.list = h("ul", { class: "conversations", testid: "conversations" })
      this.append(h("a", { class: "button new-chat", href: "#/chat", testid: "new-chat" }, icon("plus"), "New conversation"), this.list, h("a", { class: "fine notes-link", href: "#/notes", testid: "notes-link" }, "Notes"))
    }
    all.addEventListener("change", this.#load)
    waiting.addEventListener("change", this.#mark)
    this.#load()
  }

  disconnectedCallback() {
    all.removeEventListener("change", this.#load)
    waiting.removeEventListener("change", this.#mark)
  }

  attributeChangedCallback() {
    this.#mark()
  }

  #load = async () => {
    try {
      const found = await listConversations()
      this.list.replaceChildren(...(found.length ? found.map((each) => h("li", {}, row(each))) : [h("li", { class: "fine none" }, "Your conversations will be kept here.")]))
      this.#mark()
    } catch (error) {
      this.list.replaceChildren(h("li", { class: "fine none" }, error.message))
    }
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
}

function row({ id, title, updated }) {
  return h("a", { class: "conversation", href: chatAddress(id), dataset: { id } }, h("span", { class: "conversation-title" }, title || "Untitled"), h("span", { class: "fine" }, h("span", { class: "conversation-asks", hidden: true }, "Waits for you · "), ago(updated)))
}

customElements.define("conversation-list", ConversationList)
