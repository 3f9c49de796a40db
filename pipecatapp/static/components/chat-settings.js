import { h } from "../dom.js"
import { openDialog } from "./dialog.js"

/** Asks how a conversation is answered; {temperature, max_tokens, system} without what is the model's choice, or null. */
export async function askSettings(settings, takes) {
  const has = (name) => takes.includes(name)
  const field = (name, tag, properties) => h(tag, { value: String(settings[name] ?? ""), disabled: !has(name), testid: `setting-${name}`, ...properties })
  const temperature = field("temperature", "input", { type: "number", min: "0", max: "2", step: "0.05", placeholder: "The model's choice" })
  const tokens = field("max_tokens", "input", { type: "number", min: "1", max: "1000000", step: "1", placeholder: "2,048" })
  const system = field("system", "textarea", { rows: "6", maxlength: "20000", placeholder: "Answer in rhymes." })
  const labelled = (label, about, input) => h("label", { class: "setting" }, h("span", { class: "setting-name" }, label), input, h("span", { class: "fine" }, about))
  const content = h(
    "div",
    { class: "dialog-content settings" },
    labelled("Instructions", "What the model is told beside its own instructions, with every message of this conversation.", system),
    labelled("Temperature", "0 gives nearly the same answer each time; above 1 answers become unusual.", temperature),
    labelled("Longest answer", "In tokens; 100 tokens are about 75 words.", tokens),
    takes.length < 3 && h("p", { class: "fine" }, "The chosen workflow decides about the fields that are greyed out."),
  )
  const chosen = await openDialog({ title: "How this conversation is answered", content, actions: [{ name: "save", label: "Save", kind: "primary" }], close: "Cancel" })
  if (!chosen) return null
  const found = { system: system.value.trim(), temperature: temperature.value && Number(temperature.value), max_tokens: tokens.value && Number(tokens.value) }
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== ""))
}
