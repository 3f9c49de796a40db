import { h } from "../dom.js"

/** The fields of a new source of documents: {element, values(), refuse(words)}. `values()` gives the body of a request. */
export function sourceForm() {
  const name = h("input", { type: "text", id: "source-name", required: true, maxlength: 63, pattern: "[a-z0-9][a-z0-9\\-]*", title: "Lower case letters, digits and hyphens", autofocus: true, autocomplete: "off", testid: "source-name", placeholder: "manuals" })
  const paths = h("textarea", { id: "source-paths", required: true, rows: 3, spellcheck: "false", "aria-describedby": "source-paths-hint", testid: "source-paths", placeholder: "/home/anna/manuals" })
  const readers = h("input", { type: "text", id: "source-readers", autocomplete: "off", "aria-describedby": "source-readers-hint", testid: "source-readers" })
  const fault = h("p", { class: "fault", role: "alert", hidden: true, testid: "source-fault" })
  const element = h(
    "div",
    { class: "dialog-content key-form" },
    h("div", { class: "field" }, h("label", { for: "source-name" }, "Name"), name),
    h("div", { class: "field" }, h("label", { for: "source-paths" }, "Folders and files"), paths, h("p", { class: "hint", id: "source-paths-hint" }, "Full paths on the machine of Hearth, one in each line.")),
    h("div", { class: "field" }, h("label", { for: "source-readers" }, "Readers"), readers, h("p", { class: "hint", id: "source-readers-hint" }, "Names of keys, separated by commas; all for every key. Without a name, only the built-in key.")),
    fault,
  )

  function values() {
    return { name: name.value.trim(), paths: split(paths.value, "\n"), readers: split(readers.value, ",") }
  }

  function refuse(words) {
    fault.textContent = words
    fault.hidden = !words
  }

  return { element, values, refuse }
}

const split = (text, mark) => text.split(mark).map((each) => each.trim()).filter(Boolean)
