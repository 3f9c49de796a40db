import { h } from "../dom.js"
import { bytes, count } from "../format.js"

const KINDS = { stt: "Speech to text", tts: "Text to speech" }

/**
 * One model of the catalogue: {element, update(model, list)}. `act(verb, model)` is called by its buttons: "pull",
 * "cancel", "use", "remove" and "explain", where models cannot be changed from here.
 */
export function modelRow(model, act) {
  const element = h("li", { class: "model-row", testid: "model", dataset: { name: model.name } })
  let key = ""
  let current = model

  function update(next, list) {
    current = next
    const shown = JSON.stringify([{ ...next, pull: next.pull && { ...next.pull, done: 0, total: 0 } }, list.can_pull, list.can_use, list.change])
    if (shown !== key) draw(list)
    key = shown
    const bar = element.querySelector("progress")
    if (bar && next.pull) move(bar, element.querySelector(".model-bytes"), next.pull)
  }

  function draw(list) {
    const focused = element.contains(document.activeElement)
    const title = h("h3", { tabindex: "-1" }, current.name)
    element.replaceChildren(...[h("div", { class: "model-words" }, h("div", { class: "model-title" }, title, ...tags(current, list)), h("p", {}, current.about), h("p", { class: "fine" }, ...facts(current))), h("div", { class: "model-actions" }, ...buttons(current, list, act)), state(current, list)].filter(Boolean))
    if (focused) (element.querySelector("button") ?? title).focus()
  }

  return { element, update }
}

const tag = (words, kind = "") => h("span", { class: "tag", dataset: { kind } }, words)

function tags({ kind, installed, in_use: inUse, fits, served_by: servedBy }, { memory_bytes: memory }) {
  if (inUse) return [tag(servedBy.length ? "In use" : "Chosen", "good")]
  if (servedBy.length) return [tag(`Served by ${servedBy.join(", ")}`, "good")]
  return [KINDS[kind] && tag(KINDS[kind]), installed && tag("Downloaded", "good"), fits ? !installed && tag("Fits") : tag(`Too large for ${bytes(memory)} of memory`, "bad")].filter(Boolean)
}

function facts({ parameters, active_parameters: active, context, language, size_bytes: size, ram_bytes: ram, license, origin }) {
  const words = [
    parameters && `${parameters} parameters${active ? `, ${active} active` : ""}`,
    language && (language === "many" ? "many languages" : language),
    context && `${count(context)} tokens of context`,
    size && `${bytes(size)} to download`,
    `${bytes(ram)} of memory`,
    license,
  ]
  return [words.filter(Boolean).join(" · "), " · ", h("a", { href: origin, target: "_blank", rel: "noreferrer" }, new URL(origin).host)]
}

function buttons(model, list, act) {
  const { name, kind, installed, pull, in_use: inUse } = model
  const button = (verb, label, style = "") => h("button", { type: "button", class: `button ${style}`, testid: `model-${verb}`, "aria-label": `${label.replace("…", "")} ${name}`, onclick: () => act(verb, model) }, label)
  if (!list.can_pull) return [!model.served_by.length && button("explain", "How to use it…")].filter(Boolean)
  if (pull?.state === "running") return [button("cancel", "Cancel")]
  if (!installed) return [button("pull", pull ? "Try again" : "Download")]
  const loading = list.change?.state === "loading"
  const usable = kind === "chat" && !inUse && !loading
  return [usable && button(list.can_use ? "use" : "explain", list.can_use ? "Use" : "How to use it…", "primary"), !inUse && !loading && name !== "smollm2" && button("remove", "Remove…")].filter(Boolean)
}

/** What happens with the model now, or went wrong. */
function state({ name, pull, installed, in_use: inUse, served_by: servedBy }, { change }) {
  if (pull?.state === "running") return h("div", { class: "model-state" }, h("progress", { "aria-label": `Download of ${name}`, testid: "model-progress" }), h("span", { class: "fine model-bytes", testid: "model-bytes" }))
  if (pull?.state === "failed" && !installed) return fault(pull.error)
  if (pull?.state === "cancelled" && !installed) return h("p", { class: "fine model-state" }, "The download was cancelled. What has come is kept.")
  if (change?.model === name && change.state === "loading") return h("p", { class: "fine model-state", role: "status", testid: "model-loading" }, "The expert loads it. Until it is ready, other questions wait.")
  if (change?.model === name && change.state === "failed") return fault(change.error)
  if (inUse && !servedBy.length) return h("p", { class: "fine model-state" }, "The expert does not run it now. Status tells why.")
  return null
}

const fault = (words) => h("p", { class: "fault model-state", role: "alert", testid: "model-fault" }, words)

function move(bar, words, { step, done, total }) {
  if (total) Object.assign(bar, { max: total, value: done })
  else bar.removeAttribute("value")
  const text = [step || "starting", total ? `${bytes(done)} of ${bytes(total)}` : done ? bytes(done) : ""].filter(Boolean).join(" · ")
  if (words.textContent !== text) words.textContent = text
}
