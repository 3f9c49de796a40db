// Colours in code. highlight.js is loaded with the first block that names its language.
import DOMPurify from "../vendor/dompurify/purify.es.mjs"

/** Characters of a block; a longer one stays plain, because it would hold up the page. */
const LONGEST = 50_000

let loading = null

/** Colours a code element by its `data-language`; leaves it as it is for an unknown language. */
export async function highlight(element) {
  const { language } = element.dataset
  if (!language || element.textContent.length > LONGEST) return
  loading ??= import("../vendor/highlightjs/highlight.min.js")
  const { default: hljs } = await loading
  if (!hljs.getLanguage(language)) return
  await unselected(element)
  const { value } = hljs.highlight(element.textContent, { language, ignoreIllegals: true })
  element.replaceChildren(DOMPurify.sanitize(value, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }))
}

/** Waits until no selection begins or ends in an element: its text is about to be replaced by the same text. */
function unselected(element) {
  const selection = getSelection()
  const free = () => selection.isCollapsed || !selection.containsNode(element, true)
  if (free()) return undefined
  return new Promise((resolve) => {
    const look = () => {
      if (!free()) return
      document.removeEventListener("selectionchange", look)
      resolve()
    }
    document.addEventListener("selectionchange", look)
  })
}
