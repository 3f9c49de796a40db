// What a person can do with runs that are there. Each rejects with ApiError; the caller says what did not work.
import { getText, post, put, remove } from "./api.js"
import { confirmed, diffBox, openDialog, textBox } from "./components/dialog.js"
import { announce, h } from "./dom.js"
import { runAddress } from "./router.js"

const address = (run) => `/api/runs/${encodeURIComponent(run)}`

/** Starts the same with the same inputs once more and shows it. */
export async function runAgain(run) {
  open((await post(`${address(run)}/again`)).run)
}

/** Starts it again from a step on; what comes before is taken over. */
export async function forkFrom(run, path) {
  open((await post(`${address(run)}/fork`, { at: path })).run)
}

/** Shows what a run, or one step of it, changed in its workspace. */
export async function showChanges(run, path = null) {
  const diff = await getText(`${address(run)}/changes${path ? `?path=${encodeURIComponent(path)}` : ""}`)
  const title = path ? `Changes of ${path}` : "Changes of this run"
  await openDialog({ title, content: diff.trim() ? diffBox(diff, title) : h("p", {}, "No file was changed."), wide: true })
}

/** Shows the layer that holds the output of a step; it can be saved, or the run started again with it. */
export async function pinStep(run, workflow, path) {
  const layer = await getText(`${address(run)}/pin?path=${encodeURIComponent(path)}`)
  const words = h("p", {}, "With this layer the step is not run: it gives the output that it has here.")
  const actions = [{ name: "save", label: "Save as layer" }, { name: "run", label: "Run again with it", kind: "primary" }]
  const chosen = await openDialog({ title: `Pin ${path}`, content: h("div", { class: "dialog-content" }, words, textBox(layer, "Layer")), actions, wide: true })
  if (chosen === "run") open((await post(`${address(run)}/fork`, { workflow, layers: [layer] })).run)
  if (chosen === "save") {
    const id = /^id: *(\S+)/m.exec(layer)[1]
    await put(`/api/layers/${encodeURIComponent(id)}`, { document: layer })
    announce(`Saved as layer ${id}`)
    return `Saved as layer ${id}. Start the workflow with it: hearth run ${workflow} --layer ${id}`
  }
  return ""
}

/** Removes runs after a question; false when the person does not want to. */
export async function deleteRuns(runs) {
  const [title, what] = runs.length === 1 ? ["Delete this run?", "It is"] : [`Delete ${runs.length} runs?`, "They are"]
  if (!(await confirmed(title, `${what} removed with all steps, and from the conversations. This cannot be undone.`, "Delete"))) return false
  if (runs.length === 1) await remove(address(runs[0]))
  else await post("/api/runs/delete", { runs })
  announce(runs.length === 1 ? "The run is deleted." : `${runs.length} runs are deleted.`)
  return true
}

/** Gives runs to the browser as one file of JSON lines. */
export async function exportRuns(runs) {
  const lines = await getText("/api/runs/export", { runs })
  const url = URL.createObjectURL(new Blob([lines], { type: "application/jsonl" }))
  const link = h("a", { href: url, download: runs.length === 1 ? `run-${runs[0]}.jsonl` : `runs-${runs.length}.jsonl` })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

function open(run) {
  location.hash = runAddress(run)
}
