"""`onceward-console`: a group in a browser, for a person on call, who may act with a role for it.

```
server ── app: hosts, headers, faults ── pages: one function a page ──▶ rendering, templates
                                            │
             needs (pure) ◀── facts ────────┼── the readers of `consumer/dlq` and `consumer/ops`
   letter_index ◀── letter_board ───────────┼── `consumer/journal/searching`
                                            └── audit_days, owed
```

`guard` stands before each page: `entrance` knows the person, by a cookie or a proxy's header, and
the forms of our own pages; `people` is the file of persons and roles, `logins` bounds how often a
password may be guessed. Where the settings name a provider, `oidc` asks it for the name of a
person, on the two pages of `oidc_pages`, and `oidc_provider` has its addresses and keys. `acts`
carries out actions: each calls the function of its command. `value_edits` has those that edit a
value into a new request, and `fields` reads forms. `commands` is `onceward-console`, `heap` is the
memory of its threads, and `paths` has the addresses of the login. `redrive_pages` shows redrives,
`state_diagram` draws where a request stands. `previews` are letters as a person has confirmed them,
and `redrives` sends them back in threads.

`facts` reads each server apart: a page shows all that is known, and names the server that is away.
`needs` lists the tasks of a person, the most urgent first. `letter_index` is a table of the dead
letters, which `letter_board` refreshes in a thread; `letter_choice` says which of them an address
means, `sources` whether they are the group's own or another system's; `letter_page` shows them,
and `brush.js` lets a person draw a stretch of time over their bars. `live` sends a page's
content again and again to `console.js`. The pages hold no decision of their own: the commands show
the same, and each page names its command.

Not obvious: each text is anybody's. Templates escape it, and control characters and those that turn
the direction of text are written out (`feedback.console.printable`). The policy in the headers
allows two scripts, `console.js` and `brush.js`, and none in a page. Another site's page in the same
browser is refused by the name of the host that it asks for.
"""
