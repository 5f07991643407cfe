"""
The paths below `/api/` of `forgepool serve`: the read model as JSON, actions, and a document that describes both.

One table has every route with the type of its answer. The OpenAPI document is made from it, so it cannot lag behind.
Only a token opens these paths. Cookies do not count here, so no other page of a browser can use them.
"""
