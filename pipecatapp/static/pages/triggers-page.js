import "../components/state-badge.js"
import "../components/time-since.js"
import { get, post, put, remove } from "../api.js"
import { confirmed, openDialog, textBox } from "../components/dialog.js"
import { menuButton } from "../components/menu.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { workflowsHead } from "../components/page-tabs.js"
import { triggerForm } from "../components/trigger-form.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { icon } from "../icons.js"
import { runAddress, workflowAddress } from "../router.js"

const LOOK_SECONDS = 5
const address = (id = "", verb = "") => `/api/triggers${id && `/${encodeURIComponent(id)}`}${verb && `/${verb}`}`
const hook = (id) => `${location.origin}/hooks/${id}`

/** What starts workflows: webhooks and watched folders, each with its last run. */
class TriggersPage extends HTMLElement {
  #shown = ""
  #stop = () => {}

  connectedCallback() {
    const add = h("button", { type: "button", class: "button primary", testid: "trigger-add", onclick: () => this.#add() }, icon("plus"), "New trigger")
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.list = h("div", {})
    this.replaceChildren(workflowsHead("triggers", add), h("p", { class: "fine" }, "A trigger starts a workflow when another program sends a webhook, or when a file appears in a folder. Times are set with ", h("code", {}, "hearth schedule"), "."), this.note, this.list)
    this.#stop = every(LOOK_SECONDS, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const { triggers } = await get(address())
      this.note.replaceChildren()
      const shown = JSON.stringify(triggers)
      if (shown !== this.#shown && !document.querySelector("dialog[open], triggers-page :popover-open")) this.#show(triggers, shown)
    } catch (error) {
      this.note.replaceChildren(problem("The triggers cannot be read", error.message))
    }
  }

  #show(triggers, shown) {
    this.#shown = shown
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.name : undefined
    this.list.replaceChildren(triggers.length ? h("ul", { class: "model-list", testid: "triggers" }, triggers.map((each) => this.#row(each))) : emptyState("play", "No triggers yet", "Make one, and give its address to the program or device that shall start a workflow."))
    if (focused !== undefined) this.querySelector(`button[data-name="${CSS.escape(focused)}"]`)?.focus()
  }

  #row(trigger) {
    const { id, settings, run, status, started, error } = trigger
    const last = run ? [h("a", { href: runAddress(run) }, "Last run"), " ", h("time-since", { at: started }), " ", h("state-badge", { state: status })] : ["Has not started a run yet."]
    return h(
      "li",
      { class: "model-row", testid: "trigger", dataset: { name: id } },
      h("div", { class: "model-words" }, h("div", { class: "model-title" }, h("h2", {}, id), settings?.paused && h("span", { class: "tag" }, "Paused")), settings && h("p", {}, cause(id, settings), " starts ", h("a", { href: workflowAddress(settings.workflow) }, settings.workflow)), h("p", { class: "fine" }, last), error && h("p", { class: "fault", testid: "trigger-error" }, error)),
      h("div", { class: "model-actions" }, this.#menu(trigger)),
    )
  }

  #menu({ id, settings }) {
    const paused = settings?.paused
    const items = [settings && { name: paused ? "resume" : "pause", label: paused ? "Resume" : "Pause", act: () => this.#change(id, paused ? "resume" : "pause") }, { name: "remove", label: "Remove…", kind: "danger", act: () => this.#remove(id) }].filter(Boolean)
    const [button, menu] = menuButton({ label: `Actions for ${id}`, testid: "trigger-menu", items, children: icon("more") })
    button.dataset.name = id
    return [button, menu]
  }

  async #add() {
    let form
    try {
      form = triggerForm((await get("/api/workflows")).workflows)
    } catch (error) {
      return this.note.replaceChildren(problem("The workflows cannot be read", error.message))
    }
    const made = await this.#ask(form)
    if (!made) return
    form.accepted()
    if (made.secret) {
      const words = "Give the sender this address and this secret. The secret is not shown again."
      await openDialog({ title: `Set up the sender of ${made.id}`, content: h("div", { class: "dialog-content" }, h("p", {}, words), h("div", { testid: "hook-address" }, textBox(hook(made.id), "Address")), h("div", { testid: "hook-secret" }, textBox(made.secret, "Secret"))), close: "I have copied both" })
    }
    announce(`The trigger ${made.id} is saved.`)
    await this.#load()
  }

  /** Shows the form until the server took what it says, or a person gave up; the new trigger, or null. */
  async #ask(form) {
    while (await openDialog({ title: "New trigger", content: form.element, actions: [{ name: "save", label: "Save", kind: "primary" }], close: "Cancel" })) {
      const { id, settings } = form.values()
      try {
        if (!/^[a-z][a-z0-9-]*$/.test(id)) throw new Error(`“${id}” is not a valid name: use lower case letters, digits and hyphens.`)
        return await put(address(id), settings)
      } catch (error) {
        form.refuse(error.message)
      }
    }
    return null
  }

  async #change(id, verb) {
    try {
      await post(address(id, verb))
      announce(`${id} is ${verb === "pause" ? "paused" : "active"}.`)
    } catch (error) {
      this.note.replaceChildren(problem("The trigger was not changed", error.message))
    }
    await this.#load()
  }

  async #remove(id) {
    if (!(await confirmed(`Remove the trigger ${id}?`, "Its sender is refused from now on. Its runs stay.", "Remove"))) return
    try {
      await remove(address(id))
      announce(`The trigger ${id} is removed.`)
    } catch (error) {
      return this.note.replaceChildren(problem("The trigger was not removed", error.message))
    }
    await this.#load()
  }
}

/** What starts it, in words. */
function cause(id, { folder }) {
  if (!folder) return ["A request to ", h("code", {}, hook(id))]
  return ["A new file ", h("code", {}, folder.pattern), " in ", h("code", {}, folder.path)]
}

customElements.define("triggers-page", TriggersPage)
