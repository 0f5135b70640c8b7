using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Stands before the server's own upgrade, so that the framework's WebSocket reads and writes by way of an <see cref="UpgradedStream"/>.</summary>
internal sealed class UpgradeInterception(IHttpUpgradeFeature? upgrade, IHttpExtendedConnectFeature? connect) : IHttpUpgradeFeature, IHttpExtendedConnectFeature
{
    public bool IsUpgradableRequest => upgrade!.IsUpgradableRequest;

    public bool IsExtendedConnect => connect!.IsExtendedConnect;

    public string? Protocol => connect!.Protocol;

    /// <summary>The server's own feature; null when there is none.</summary>
    public IHttpUpgradeFeature? Upgrade => upgrade;

    /// <summary>The connection's bytes, once it is upgraded.</summary>
    public UpgradedStream? Stream { get; private set; }

    public static async Task InvokeAsync(HttpContext context, Func<Task> next)
    {
        var (upgrade, connect) = (context.Features.Get<IHttpUpgradeFeature>(), context.Features.Get<IHttpExtendedConnectFeature>());
        var interception = new UpgradeInterception(upgrade, connect);
        context.Features.Set(interception);
        if (upgrade is not null)
            context.Features.Set<IHttpUpgradeFeature>(interception);
        if (connect is not null)
            context.Features.Set<IHttpExtendedConnectFeature>(interception);

        // Middleware of the application's own would lead past this: the branch's puts another in its place.
        if (upgrade is { IsUpgradableRequest: true } || connect is { IsExtendedConnect: true })
            context.Features.Set<IHttpWebSocketFeature>(null);
        await next().ConfigureAwait(false);
    }

    public async Task<Stream> UpgradeAsync() => Stream = new UpgradedStream(await upgrade!.UpgradeAsync().ConfigureAwait(false));

    public async ValueTask<Stream> AcceptAsync() => Stream = new UpgradedStream(await connect!.AcceptAsync().ConfigureAwait(false));
}
