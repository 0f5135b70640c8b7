using System.Net;
using System.Net.Sockets;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Finds all addresses of brokers: of a name's addresses, the client tries only the first.</summary>
internal static class RabbitMqResolver
{
    /// <summary>RabbitMQ's own maximum. It is above MaxFrameBytes, so that the frame reader rejects a frame that is too large and the connection stays open.</summary>
    public const uint MaxBodyBytes = 128 * 1024 * 1024;

    /// <summary>Returns an endpoint for each address. The client tries them in a random order.</summary>
    public static async Task<List<AmqpTcpEndpoint>> ResolveAsync(
        IEnumerable<AmqpTcpEndpoint> hosts, Func<string, CancellationToken, Task<IPAddress[]>> resolve, CancellationToken cancellationToken)
    {
        var endpoints = new List<AmqpTcpEndpoint>();
        foreach (var host in hosts)
        {
            try
            {
                var addresses = await resolve(host.HostName, cancellationToken).ConfigureAwait(false);
                endpoints.AddRange(addresses.Select(address => new AmqpTcpEndpoint(address.ToString(), host.Port, host.Ssl, host.MaxInboundMessageBodySize)));
            }
            catch (SocketException)
            {
                // A name without addresses keeps no other host from being tried. The client says what is wrong with it.
                endpoints.Add(host);
            }
        }

        return endpoints;
    }
}
