using System.Globalization;
using BatchKit.TestServers.Network;

namespace BatchKit.TestServers.Mosquitto;

/// <summary>Two brokers, of which the second one bridges all topics in both directions, over a proxy that can cut the bridge. Disposing kills both.</summary>
public sealed class MosquittoBridge : IAsyncDisposable
{
    private MosquittoBridge(MosquittoServer first, TcpProxy link, MosquittoServer second) => (First, Link, Second) = (first, link, second);

    /// <summary>The broker that is bridged to.</summary>
    public MosquittoServer First { get; }

    /// <summary>The bridge's connection.</summary>
    public TcpProxy Link { get; }

    /// <summary>The broker that has the bridge.</summary>
    public MosquittoServer Second { get; }

    /// <summary>Starts both. The bridge connects a little later.</summary>
    /// <param name="protocol">The bridge's protocol, as <c>bridge_protocol_version</c> has it.</param>
    /// <exception cref="ServerStartException">Mosquitto is not installed, or did not start.</exception>
    public static async Task<MosquittoBridge> StartAsync(string protocol)
    {
        // By default a broker drops what is above 1,000 messages for one client, also for a bridge that is away.
        var first = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { MaxQueued = 0 });
        var link = TcpProxy.Start(first.Host, first.Port);
        try
        {
            var second = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions
            {
                MaxQueued = 0,
                Lines =
                [
                    "connection first",
                    string.Create(CultureInfo.InvariantCulture, $"address 127.0.0.1:{link.Port}"),
                    $"bridge_protocol_version {protocol}",
                    "topic # both 1",
                    "cleansession false",
                    "restart_timeout 1",
                ],
            });
            return new MosquittoBridge(first, link, second);
        }
        catch
        {
            await link.DisposeAsync();
            await first.DisposeAsync();
            throw;
        }
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        await Second.DisposeAsync();
        await Link.DisposeAsync();
        await First.DisposeAsync();
    }
}
