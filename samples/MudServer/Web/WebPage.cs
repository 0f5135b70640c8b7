using System.Collections.Frozen;
using System.Reflection;
using System.Security.Cryptography;
using Microsoft.Net.Http.Headers;

namespace MudServer.Web;

/// <summary>The page with the terminal: the files of <c>Web/Page</c>, which are embedded in the program.</summary>
internal static class WebPage
{
    private const string Start = "index.html";

    // The page may load from this server only, and may not be framed.
    private const string ContentSecurityPolicy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    private static readonly FrozenDictionary<string, string> ContentTypes = new Dictionary<string, string>(StringComparer.Ordinal)
    {
        [".html"] = "text/html; charset=utf-8",
        [".css"] = "text/css; charset=utf-8",
        [".js"] = "text/javascript; charset=utf-8",
        [".svg"] = "image/svg+xml",
    }.ToFrozenDictionary(StringComparer.Ordinal);

    public static void Map(WebApplication application)
    {
        var assembly = typeof(WebPage).Assembly;
        foreach (var name in assembly.GetManifestResourceNames().Where(name => ContentTypes.ContainsKey(Path.GetExtension(name))))
        {
            var content = Read(assembly, name);
            var tag = new EntityTagHeaderValue($"\"{Convert.ToHexStringLower(SHA256.HashData(content))}\"");
            application.MapGet(name == Start ? "/" : $"/{name}", context => SendAsync(context, content, ContentTypes[Path.GetExtension(name)], tag));
        }
    }

    private static Task SendAsync(HttpContext context, byte[] content, string contentType, EntityTagHeaderValue tag)
    {
        var headers = context.Response.Headers;
        headers.ContentSecurityPolicy = ContentSecurityPolicy;
        headers.XContentTypeOptions = "nosniff";
        headers["Referrer-Policy"] = "no-referrer";

        // A browser asks each time, and mostly gets the answer that its copy is current.
        headers.CacheControl = "no-cache";
        return Results.Bytes(content, contentType, entityTag: tag).ExecuteAsync(context);
    }

    private static byte[] Read(Assembly assembly, string name)
    {
        using var resource = assembly.GetManifestResourceStream(name)!;
        var content = new byte[resource.Length];
        resource.ReadExactly(content);
        return content;
    }
}
