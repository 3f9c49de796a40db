import "../components/state-badge.js"
import "../components/time-since.js"
import { get, post } from "../api.js"
import { confirmed, openDialog, textBox } from "../components/dialog.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { bytes, count, duration } from "../format.js"

const LOOK_SECONDS = 4

/** What each machine does now, how fast its experts write, and its services with a restart. */
class MachinesPage extends HTMLElement {
  #shown = ""
  #cards = new Map()
  #stop = () => {}

  connectedCallback() {
    this.note = h("div", { class: "note-slot" }, loading(4))
    this.content = h("div", { class: "machines" })
    this.fresh = h("p", { class: "fine", testid: "freshness" })
    this.replaceChildren(systemHead("machines", this.fresh), this.note, this.content)
    this.#stop = every(LOOK_SECONDS, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const { machines, unknown } = await get("/api/machines")
      this.fresh.replaceChildren("Measured ", h("time-since", { at: new Date().toISOString() }))
      this.#note(unknown.map((words) => ["Not everything can be queried", words]), machines.length)
      for (const machine of machines) this.#show(machine)
      const names = JSON.stringify(machines.map(({ name }) => name))
      if (names !== this.#shown) this.content.replaceChildren(...machines.map(({ name }) => this.#cards.get(name).element))
      this.#shown = names
    } catch (error) {
      this.#note([["The machines cannot be read. What is shown is old", error.message]], 1)
    }
  }

  /** Shown again only when it changes: a screen reader reads each notice out. */
  #note(notices, count) {
    const key = JSON.stringify([notices, count > 0])
    if (this.note.dataset.key === key) return
    this.note.dataset.key = key
    this.note.replaceChildren(...notices.map(([title, words]) => problem(title, words)), ...(count ? [] : [emptyState("status", "No machine is known", "Nobody reports where the services run.")]))
  }

  #show(machine) {
    if (!this.#cards.has(machine.name)) this.#cards.set(machine.name, machineCard(machine, this.#restart))
    this.#cards.get(machine.name).update(machine)
  }

  #restart = async (service, machine) => {
    const words = service === "pipecatapp" ? "Answers under way are finished for ten seconds; what is left goes on after the restart. This page reconnects by itself." : "Requests that it works on now fail."
    if (!(await confirmed(`Restart ${service}?`, words, "Restart"))) return
    try {
      await post("/api/machines/restart", { service, machine })
      announce(`${service} is being restarted.`)
    } catch (error) {
      const { command } = error.details ?? {}
      await openDialog({ title: `${service} was not restarted`, content: h("div", { class: "dialog-content" }, h("p", { role: "alert", testid: "restart-refusal" }, error.message), command && [h("p", {}, `Type this on ${machine}:`), textBox(command, "Command")]) })
    }
    await this.#load()
  }
}

/** One machine: {element, update(machine)}. Services are drawn again only when one of them changes. */
function machineCard({ name }, restart) {
  const head = h("div", { class: "machine-head" })
  const meters = h("dl", { class: "meters" })
  const services = h("ul", { class: "machine-services", "aria-label": `Services of ${name}`, testid: "machine-services" })
  const title = h("h2", {}, name)
  const element = h("section", { class: "machine", testid: "machine", dataset: { name } }, head, meters, h("h3", {}, "Services"), services)
  let drawn = ""

  function update(machine) {
    const { stats, speeds } = machine
    head.replaceChildren(title, h("state-badge", { state: machine.healthy ? "done" : "failed", words: machine.healthy ? "Healthy" : sentence(machine.state) }), h("span", { class: "fine" }, facts(machine)))
    meters.replaceChildren(...(stats ? measured(stats, machine.cores) : [meter("Load", "not measured", null, "No one reports the load of this machine.")]), ...speed(speeds))
    const key = JSON.stringify(machine.services)
    if (key === drawn) return
    drawn = key
    const focused = services.contains(document.activeElement) && document.activeElement.dataset.name
    services.replaceChildren(...machine.services.map((each) => row(each, () => restart(each.name, name))))
    if (focused) services.querySelector(`button[data-name="${CSS.escape(focused)}"]`)?.focus()
  }

  return { element, update }
}

function facts({ address, detail, cores, stats }) {
  return [address, cores && `${cores} ${cores === 1 ? "core" : "cores"}`, stats?.uptime_seconds && `up for ${duration(stats.uptime_seconds)}`, detail].filter(Boolean).join(" · ")
}

function measured(stats) {
  const { cpu_percent: cpu, memory_total: memory, memory_used: used, disk_total: disk, disk_used: full, celsius, watts, watts_of: of, cards } = stats
  return [
    meter("Processor", cpu === null ? "not measured" : `${Math.round(cpu)} %`, cpu),
    meter("Memory", memory === null ? "not measured" : `${bytes(used)} of ${bytes(memory)}`, memory && (100 * used) / memory),
    meter("Disk", disk === null ? "not measured" : `${bytes(full)} of ${bytes(disk)}`, disk && (100 * full) / disk),
    ...cards.flatMap(card),
    meter("Temperature", celsius === null ? "not measured" : `${Math.round(celsius)} °C`, null, celsius !== null && "of the processor"),
    meter("Power", watts === null ? "not measured" : `${watts.toFixed(1)} W`, null, of && `of the ${of}`),
  ]
}

function card({ name, memory_total: memory, memory_used: used, percent, celsius, watts }) {
  const facts = [percent !== null && `${Math.round(percent)} % busy`, celsius !== null && `${Math.round(celsius)} °C`, watts !== null && `${watts.toFixed(0)} W`].filter(Boolean).join(" · ")
  return [meter(name, memory === null ? "memory not measured" : `${bytes(used ?? 0)} of ${bytes(memory)}`, memory && (100 * (used ?? 0)) / memory, facts)]
}

function speed(speeds) {
  return speeds.map(({ expert, model, tokens_per_second: fast }) => meter(expert, fast === null ? "no answer yet" : `${fast < 10 ? fast.toFixed(1) : count(Math.round(fast))} tokens per second`, null, model && model !== expert ? `runs ${model}` : ""))
}

/** One value with its bar, where it is a part of something. */
function meter(name, value, percent, words = "") {
  const bar = percent !== null && percent !== undefined && h("meter", { min: 0, max: 100, low: 75, high: 92, optimum: 0, value: Math.min(100, percent), "aria-label": name })
  return h("div", { class: "meter", dataset: { name } }, h("dt", {}, name), h("dd", {}, h("span", {}, value), bar, words && h("span", { class: "fine" }, words)))
}

function row({ name, healthy, since, detail }, act) {
  const state = h("state-badge", { state: healthy ? "done" : "failed", words: healthy ? "Healthy" : "Not healthy" })
  const button = h("button", { type: "button", class: "button", dataset: { name }, testid: "restart", "aria-label": `Restart ${name}`, onclick: act }, "Restart…")
  return h("li", { testid: "machine-service", dataset: { name } }, h("div", { class: "machine-service-words" }, h("strong", {}, name), h("span", { class: "fine" }, detail || ["since ", h("time-since", { at: since })])), state, button)
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1)

customElements.define("machines-page", MachinesPage)
