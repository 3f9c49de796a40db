import { get, post, remove } from "../api.js"
import { confirmed, openDialog, textBox } from "../components/dialog.js"
import { modelRow } from "../components/model-row.js"
import { loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { bytes } from "../format.js"

/** Seconds between two looks while nothing happens; one while something does. */
const CALM = 5

const address = (name, verb = "") => `/api/models/${encodeURIComponent(name)}${verb && `/${verb}`}`

/** The model catalogue: what fits, what is here, downloads, and which model answers. */
class ModelsPage extends HTMLElement {
  #rows = new Map()
  #before = new Map()
  #list = null
  #ticks = 0
  #key = ""
  #stop = () => {}

  connectedCallback() {
    this.note = h("div", { class: "note-slot" }, loading(5))
    this.hint = h("div", { class: "note-slot" })
    this.content = h("div", { class: "models" })
    this.machine = h("p", { class: "fine", testid: "models-machine" })
    this.replaceChildren(systemHead("models", this.machine), this.note, this.hint, this.content)
    this.#stop = every(1, () => this.#tick())
  }

  disconnectedCallback() {
    this.#stop()
  }

  async #tick() {
    const busy = this.#list?.models.some(({ pull }) => pull?.state === "running") || this.#list?.change?.state === "loading"
    if (this.#ticks++ % CALM === 0 || busy) await this.#load()
  }

  async #load() {
    try {
      const list = await get("/api/models")
      this.note.replaceChildren()
      this.#show(list)
    } catch (error) {
      this.note.replaceChildren(problem("The models cannot be read", error.message))
    }
  }

  #show(list) {
    this.#list = list
    const room = list.disk_free_bytes === null ? "" : ` · ${bytes(list.disk_free_bytes)} of disk free`
    this.machine.textContent = `${list.can_pull ? "This machine" : "The largest machine"} has ${bytes(list.memory_bytes)} of memory${room}`
    this.#advise(list)
    const groups = Object.groupBy(list.models, (model) => groupOf(model, list.can_pull))
    const key = JSON.stringify(Object.entries(groups).map(([name, models]) => [name, models.map((model) => model.name)]))
    for (const model of list.models) {
      if (!this.#rows.has(model.name)) this.#rows.set(model.name, modelRow(model, this.#act))
      this.#rows.get(model.name).update(model, list)
      this.#tell(model)
    }
    if (key !== this.#key) this.#arrange(groups)
    this.#key = key
  }

  /** Puts the rows into their sections; the one with the focus keeps it. */
  #arrange(groups) {
    const focused = this.contains(document.activeElement) && document.activeElement
    this.content.replaceChildren(...GROUPS.filter(([name]) => groups[name]).map(([name, title]) => h("section", {}, h("h2", {}, title), h("ul", { class: "model-list", testid: `models-${name}` }, groups[name].map((model) => this.#rows.get(model.name).element)))))
    if (focused) focused.focus()
  }

  /** The first thing that a new instance has to say: what answers is a demo, and there is a better one. */
  #advise({ demo, suggested, models, can_pull: canPull }) {
    const better = models.find(({ name }) => name === suggested)
    const key = JSON.stringify([demo, suggested, better?.installed, better?.pull?.state])
    if (this.hint.dataset.key === key) return
    this.hint.dataset.key = key
    if (!demo || !better || !canPull || better.pull?.state === "running") return this.hint.replaceChildren()
    const served = models.find(({ in_use: inUse }) => inUse)
    const [verb, label] = better.installed ? ["use", `Use ${better.name}`] : ["pull", `Download ${better.name}`]
    this.hint.replaceChildren(h("div", { class: "banner", testid: "demo-model" }, h("div", {}, h("strong", {}, `${served.name} is a demo model with ${served.parameters} parameters`), h("p", {}, `It shows that everything works, but its answers are often wrong. ${better.name} (${better.parameters}) is the best one that fits this machine.`)), h("button", { type: "button", class: "button primary", testid: "demo-model-get", onclick: () => this.#act(verb, better) }, label)))
  }

  /** Reads out what has ended. */
  #tell({ name, installed, served_by: servedBy }) {
    const before = this.#before.get(name)
    if (before && installed && !before.installed) announce(`${name} is downloaded.`)
    if (before && servedBy.length && !before.served) announce(`${name} answers now.`)
    this.#before.set(name, { installed, served: servedBy.length > 0 })
  }

  #act = async (verb, model) => {
    try {
      if (verb === "explain") return await this.#explain(model)
      if (verb === "remove" && !(await confirmed("Remove this model?", `The files of ${model.name}${model.size_bytes ? ` (${bytes(model.size_bytes)})` : ""} are deleted from this machine. They can be downloaded again.`, "Remove"))) return
      if (verb === "pull" || verb === "use") await post(address(model.name, verb), {})
      else await remove(address(model.name, verb === "cancel" ? "pull" : ""))
      this.hint.dataset.key = ""
      await this.#load()
    } catch (error) {
      await openDialog({ title: "This did not work", content: h("p", { role: "alert", testid: "model-refusal" }, error.message) })
    }
  }

  /** Where models cannot be changed from here: what to type, and where. */
  #explain({ name }) {
    const { can_pull: local, command } = this.#list
    const words = local ? `This instance was not started by “hearth up”, so the page cannot change the model. Type this, then start Hearth again:` : `On a cluster, Ansible brings models to the machines. Put ${name} first into the models of an expert in group_vars/all/experts.yaml, then type this in the checkout of Hearth:`
    const content = h("div", { class: "dialog-content" }, h("p", {}, words), textBox(local ? `${command.replace("MODEL", name)}` : command, "Command"))
    return openDialog({ title: `How to use ${name}`, content })
  }
}

const GROUPS = [
  ["here", "On this machine"],
  ["served", "Served on this cluster"],
  ["fits", "Models that fit"],
  ["large", "Too large"],
  ["speech", "Speech"],
]

function groupOf({ kind, installed, fits, served_by: servedBy, in_use: inUse, pull }, local) {
  if (kind !== "chat") return "speech"
  if (!local && servedBy.length) return "served"
  if (installed || pull || inUse) return "here"
  return fits ? "fits" : "large"
}

customElements.define("models-page", ModelsPage)
