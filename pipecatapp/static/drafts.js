// What a person has written and not sent, kept by the tab over a reload and a new sign-in.
const PREFIX = "hearth.draft"
const key = (name) => (name ? `${PREFIX}-${name}` : PREFIX)

/** Keeps a text under a name, "" for the message of the chat; an empty text is forgotten. Returns false where the tab has no room for it. */
export function keepDraft(name, text) {
  try {
    if (text) sessionStorage.setItem(key(name), text)
    else sessionStorage.removeItem(key(name))
    return true
  } catch {
    return false
  }
}

export const draftOf = (name) => sessionStorage.getItem(key(name)) ?? ""

/** Forgets all drafts: of messages with their files and settings, of edited questions and of answers. */
export function forgetDrafts() {
  for (const each of Object.keys(sessionStorage)) if (each.startsWith(PREFIX)) sessionStorage.removeItem(each)
}

/** A field whose text is kept under a name, with what was kept before. */
export function keepField(field, name) {
  field.value = draftOf(name) || field.value
  field.addEventListener("input", () => keepDraft(name, field.value))
}
