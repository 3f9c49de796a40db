import { h } from "../dom.js"

const SCOPES = [
  ["chat", "Chat", "experts, and workflows without effects"],
  ["workflows", "Workflows", "also those that read and write files, ask the web or people"],
  ["exec", "Programs", "also those that run programs"],
  ["admin", "Administrator", "everything, and the keys themselves at the gateway"],
]

const NUMBERS = [
  ["requests_per_minute", "Requests per minute"],
  ["tokens_per_minute", "Tokens per minute"],
  ["tokens_per_day", "Tokens per day", "The day begins at midnight UTC."],
]

/**
 * The fields of an issued key: {element, values(), refuse(words)}. `key` is one that the gateway lists; without it the
 * form is for a new one and asks for its name. `values()` gives the body of a request.
 */
export function keyForm(key = null) {
  const name = !key && h("input", { type: "text", id: "key-name", required: true, maxlength: 100, autofocus: true, autocomplete: "off", testid: "key-name", placeholder: "kitchen-tablet" })
  const scopes = SCOPES.map(([scope, , words]) => h("input", { type: "checkbox", id: `key-scope-${scope}`, value: scope, checked: (key?.scopes ?? ["chat"]).includes(scope), "aria-describedby": `key-scope-${scope}-hint`, testid: `key-scope-${scope}`, title: words }))
  const models = h("input", { type: "text", id: "key-models", value: (key?.models ?? ["*"]).join(", "), "aria-describedby": "key-models-hint", testid: "key-models" })
  const numbers = NUMBERS.map(([field]) => h("input", { type: "number", id: `key-${field}`, min: 1, step: 1, value: key?.[field] ?? "", inputmode: "numeric", placeholder: "no limit", "aria-describedby": `key-${field}-hint`, testid: `key-${field}` }))
  const fault = h("p", { class: "fault", role: "alert", hidden: true, testid: "key-fault" })
  const element = h(
    "div",
    { class: "dialog-content key-form" },
    name && h("div", { class: "field" }, h("label", { for: "key-name" }, "Name"), name, h("p", { class: "hint" }, "Who or what uses the key.")),
    h("fieldset", {}, h("legend", {}, "May use"), ...SCOPES.map(([scope, label, words], i) => h("div", { class: "key-scope" }, scopes[i], h("label", { for: `key-scope-${scope}` }, label), h("span", { class: "hint", id: `key-scope-${scope}-hint` }, words)))),
    h("div", { class: "field" }, h("label", { for: "key-models" }, "Models"), models, h("p", { class: "hint", id: "key-models-hint" }, "Names or patterns such as workflow/*, separated by commas; * is every model.")),
    ...NUMBERS.map(([field, label, words], i) => h("div", { class: "field" }, h("label", { for: `key-${field}` }, label), numbers[i], h("p", { class: "hint", id: `key-${field}-hint` }, words ?? ""))),
    fault,
  )

  function values() {
    const patterns = models.value.split(",").map((each) => each.trim()).filter(Boolean)
    const limits = NUMBERS.map(([field], i) => [field, numbers[i].value === "" ? null : Number(numbers[i].value)])
    const body = { models: patterns.length ? patterns : ["*"], scopes: scopes.filter((each) => each.checked).map((each) => each.value), ...Object.fromEntries(limits) }
    return name ? { name: name.value.trim(), ...body } : body
  }

  function refuse(words) {
    fault.textContent = words
    fault.hidden = !words
  }

  return { element, values, refuse }
}

export const scopeWords = (scopes) => SCOPES.filter(([scope]) => scopes.includes(scope)).map(([, label]) => label)
