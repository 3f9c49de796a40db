import "../components/time-since.js"
import { get, post, put, remove } from "../api.js"
import { confirmed, openDialog, textBox } from "../components/dialog.js"
import { keyForm, scopeWords } from "../components/key-form.js"
import { menuButton } from "../components/menu.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { count } from "../format.js"
import { icon } from "../icons.js"
import { chatAddress } from "../router.js"

const LOOK_SECONDS = 10
const MOST = 500 // conversations of a key that are listed
const address = (name = "") => `/api/keys${name && `/${encodeURIComponent(name)}`}`

/** The people and programs of this home: their keys, limits, use today, and conversations. */
class PeoplePage extends HTMLElement {
  #shown = ""
  #stop = () => {}

  connectedCallback() {
    const add = h("button", { type: "button", class: "button primary", testid: "key-add", onclick: () => this.#add() }, icon("plus"), "New key")
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.content = h("div", { class: "people" })
    this.replaceChildren(systemHead("people", add), h("p", { class: "fine" }, "Everybody who uses Hearth from another program or device has a key. Conversations belong to the key that began them. You are signed in with the built-in key, which sees all of them."), this.note, this.content)
    this.#stop = every(LOOK_SECONDS, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const [{ keys }, { owners }] = await Promise.all([get(address()), get("/api/keys/owners")])
      this.note.replaceChildren()
      const shown = JSON.stringify([keys, owners])
      if (shown !== this.#shown && !document.querySelector("dialog[open], people-page :popover-open")) this.#show(keys, owners, shown)
    } catch (error) {
      this.note.replaceChildren(problem("The keys cannot be read", error.message))
    }
  }

  #show(keys, owners, shown) {
    this.#shown = shown
    const of = (name) => owners.find(({ owner }) => owner === name)
    const open = keys.filter(({ revoked }) => !revoked)
    const revoked = keys.filter((key) => key.revoked)
    const own = { name: "", label: "Built-in key", scopes: ["admin"], models: ["*"] }
    const focused = this.contains(document.activeElement) ? document.activeElement.dataset : {}
    this.content.replaceChildren(
      ...[
        h("section", {}, h("h2", { class: "off-screen" }, "Keys"), h("ul", { class: "model-list", testid: "keys" }, [own, ...open].map((key) => this.#row(key, of(key.name))))),
        !open.length && emptyState("plus", "No issued keys yet", "Make one for each person and device, so that each can be limited and revoked alone."),
        revoked.length > 0 && h("details", { class: "revoked" }, h("summary", {}, `Revoked keys (${revoked.length})`), h("ul", { class: "model-list", testid: "revoked-keys" }, revoked.map((key) => this.#row(key, of(key.name))))),
      ].filter(Boolean),
    )
    if (focused.name !== undefined) this.querySelector(`[data-testid="${focused.testid}"][data-name="${CSS.escape(focused.name)}"]`)?.focus()
  }

  #row(key, owner) {
    const { name, label = name, key: ending, scopes, revoked } = key
    const talks = owner?.conversations ?? 0
    const words = talks === 1 ? "1 conversation" : `${count(talks)} conversations`
    const button = talks > 0 && h("button", { type: "button", class: "link-button", dataset: { name }, testid: "key-conversations", "aria-label": `${words} of ${label}`, onclick: () => this.#conversations(key, label, talks) }, words)
    return h(
      "li",
      { class: "model-row key-row", testid: "key", dataset: { name } },
      h("div", { class: "model-words" }, h("div", { class: "model-title" }, h("h3", {}, label), ending && h("code", {}, ending), revoked ? h("span", { class: "tag", dataset: { kind: "bad" } }, "Revoked") : scopeWords(scopes).map((each) => h("span", { class: "tag" }, each))), name && h("p", {}, usage(key)), h("p", { class: "fine" }, ...facts(key), button || words, owner && [", last ", h("time-since", { at: owner.updated })])),
      h("div", { class: "model-actions" }, name && !revoked && this.#menu(key)),
    )
  }

  #menu(key) {
    const items = [
      { name: "limit", label: "Change limits…", act: () => this.#limit(key) },
      { name: "revoke", label: "Revoke…", kind: "danger", act: () => this.#revoke(key) },
    ]
    const [button, menu] = menuButton({ label: `Actions for ${key.name}`, testid: "key-menu", items, children: icon("more") })
    button.dataset.name = key.name
    return [button, menu]
  }

  async #add() {
    const form = keyForm()
    const made = await this.#ask("New key", form, "Make the key", () => post(address(), form.values()))
    if (!made) return
    const words = `This is the key of ${made.name}. It is shown once: only its digest is kept.`
    await openDialog({ title: "Copy the key now", content: h("div", { class: "dialog-content" }, h("p", {}, words), h("div", { testid: "key-secret" }, textBox(made.key, "The new key")), h("p", { class: "fine" }, "Programs send it as a Bearer key to the address of the gateway, the API that `hearth status` shows.")), close: "I have copied it" })
    announce(`The key of ${made.name} is made.`)
    await this.#load()
  }

  async #limit(key) {
    const form = keyForm(key)
    const done = await this.#ask(`Limits of ${key.name}`, form, "Save", () => put(address(key.name), form.values()))
    if (done) announce(`${key.name} has these limits now.`)
    await this.#load()
  }

  /** Shows a form until what it says was accepted, or a person gave up; what the server answered, or null. */
  async #ask(title, form, label, send) {
    while (await openDialog({ title, content: form.element, actions: [{ name: "save", label, kind: "primary" }], close: "Cancel" })) {
      try {
        return await send()
      } catch (error) {
        form.refuse(error.message)
      }
    }
    return null
  }

  async #revoke({ name }) {
    const words = `${name} cannot use Hearth any more, and its requests under way end. Its conversations stay. A revoked key cannot be opened again, and its name stays taken.`
    if (!(await confirmed(`Revoke the key of ${name}?`, words, "Revoke"))) return
    try {
      await remove(address(name))
      announce(`The key of ${name} is revoked.`)
    } catch (error) {
      this.note.replaceChildren(problem("The key was not revoked", error.message))
    }
    await this.#load()
  }

  async #conversations({ name }, label, total) {
    try {
      const { conversations } = await get(`/api/keys/conversations?limit=${MOST}&owner=${encodeURIComponent(name)}`)
      const rows = conversations.map(({ id, title, updated }) => h("li", {}, h("a", { href: chatAddress(id), onclick: (event) => event.currentTarget.closest("dialog").close() }, title || "Untitled"), h("span", { class: "fine" }, " ", h("time-since", { at: updated }))))
      await openDialog({ title: `Conversations of ${label}`, content: h("div", { class: "dialog-content" }, h("ul", { class: "people-talks", testid: "key-talks" }, rows), rows.length < total && h("p", { class: "fine" }, `The newest ${count(rows.length)} of ${count(total)} are shown.`)) })
    } catch (error) {
      this.note.replaceChildren(problem("The conversations cannot be read", error.message))
    }
  }
}

/** "12 requests and 3,400 of 10,000 tokens today". */
function usage({ today, tokens_per_day: budget }) {
  const requests = today.requests === 1 ? "1 request" : `${count(today.requests)} requests`
  return `${requests} and ${count(today.tokens)}${budget ? ` of ${count(budget)}` : ""} tokens today`
}

function facts({ models, created, requests_per_minute: requests, tokens_per_minute: tokens }) {
  const words = [
    !models.includes("*") && `only ${models.join(", ")}`,
    requests && `${count(requests)} requests a minute`,
    tokens && `${count(tokens)} tokens a minute`,
    created && `made ${new Date(created).toLocaleDateString()}`,
  ].filter(Boolean)
  return words.map((each) => `${each} · `)
}

customElements.define("people-page", PeoplePage)
