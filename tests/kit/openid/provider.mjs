// `node provider.mjs FOLDER TOLD`: a provider on a port of this host, which it prints as a line.
//
// FOLDER has `node_modules`. TOLD is a JSON object with the port (0 for any), and the client's id,
// secret and address of the way back. Each start makes new keys. A person is called as they log
// in, with any password; a name that begins with `new` has no verified address.
import { createServer } from 'node:http'
import { generateKeyPairSync } from 'node:crypto'
import { pathToFileURL } from 'node:url'

const [folder, text] = process.argv.slice(2)
const told = JSON.parse(text)
const { Provider } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`))

const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
const server = createServer()
server.listen(told.port, '127.0.0.1', () => {
  const { port } = server.address()
  // Not 127.0.0.1: to a browser that is another site than the console.
  const provider = new Provider(`http://localhost:${port}`, {
    clients: [{ client_id: told.id, client_secret: told.secret, redirect_uris: [told.back] }],
    jwks: { keys: [{ ...key, use: 'sig' }] },
    cookies: { keys: ['of a test'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    findAccount: (context, name) => ({
      accountId: name,
      claims: () => ({ sub: name, email: name, email_verified: !name.startsWith('new') })
    })
  })
  server.on('request', provider.callback())
  console.log(`port ${port}`)
})
