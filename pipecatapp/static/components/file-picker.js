import { postBytes } from "../api.js"
import { h } from "../dom.js"
import { draftOf, keepDraft } from "../drafts.js"
import { bytes } from "../format.js"
import { icon } from "../icons.js"

/**
 * Files that go with a run, chosen or dropped: {element, upload()}. They are stored when they are chosen, and kept as a
 * draft under a name. `upload()` waits for that and gives their ids by name; it rejects with an Error that names the
 * file which could not be stored.
 */
export function filePicker(draft) {
  const chosen = new Map(JSON.parse(draftOf(draft) || "[]")) // name → {size, id, file: unless it is stored}
  const list = h("ul", { class: "chips", "aria-label": "Files of the run" })
  const input = h("input", { type: "file", multiple: true, hidden: true, testid: "files", onchange: () => add(input.files) })
  const button = h("button", { type: "button", class: "button", onclick: () => input.click() }, icon("attach"), "Add files")
  const element = h("div", { class: "field file-picker", role: "group", "aria-label": "Files" }, h("span", { class: "label" }, "Files", h("span", { class: "fine" }, "optional")), h("p", { class: "hint" }, "The run gets copies and reads them by these names."), list, h("div", {}, button), input)

  function add(files) {
    for (const file of files) {
      const each = { size: file.size, file }
      chosen.set(file.name, each)
      store(each).catch(() => {}) // `upload` tries again, and tells why it fails
    }
    input.value = "" // so that the same file can be chosen again
    show()
  }

  async function store(each) {
    each.sending ??= postBytes("/api/files", each.file).then((response) => response.json())
    try {
      each.id = (await each.sending).id
      keep()
    } finally {
      delete each.sending
    }
  }

  function keep() {
    const stored = [...chosen].filter(([, { id }]) => id).map(([name, { size, id }]) => [name, { size, id }])
    keepDraft(draft, stored.length ? JSON.stringify(stored) : "")
  }

  function show() {
    list.replaceChildren(...[...chosen].map(([name, { size }]) => h("li", { class: "chip", testid: "file" }, icon("file"), h("span", { class: "chip-name" }, name), h("span", { class: "fine" }, bytes(size)), h("button", { type: "button", class: "icon-button small", "aria-label": `Remove ${name}`, title: "Remove", onclick: () => drop(name) }, icon("cross")))))
  }

  function drop(name) {
    chosen.delete(name)
    keep()
    show()
    button.focus()
  }

  element.addEventListener("dragover", (event) => {
    event.preventDefault()
    element.dataset.over = "yes"
  })
  element.addEventListener("dragleave", () => delete element.dataset.over)
  element.addEventListener("drop", (event) => {
    event.preventDefault()
    delete element.dataset.over
    add(event.dataTransfer.files)
  })

  async function upload() {
    const found = {}
    for (const [name, each] of chosen) {
      try {
        if (!each.id) await store(each)
      } catch (error) {
        throw new Error(`“${name}” could not be sent: ${error.message}`, { cause: error })
      }
      found[name] = each.id
    }
    return found
  }

  show()
  return { element, upload }
}
