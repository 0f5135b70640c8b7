using System.Runtime.CompilerServices;
using MQTTnet;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>Publishes and injects many of MQTTnet's own messages at once, with the default settings.</summary>
/// <remarks>
/// The first call creates a transport for the client or server, which stays attached to it until both are collected. For other settings, or to share the window with a
/// buffer, create a <see cref="MqttClientTransport"/> or <see cref="MqttServerTransport"/> and call its method of the same name.
/// </remarks>
public static class PublishManyExtensions
{
    // Mosquitto's default. Only the answer to a connect contains the broker's limit, and a broker may end the connection of a client that exceeds it.
    internal const int AssumedReceiveMaximum = 20;

    // The values refer to their keys. These tables still release both.
    private static readonly ConditionalWeakTable<IMqttClient, MqttClientTransport> Clients = [];
    private static readonly ConditionalWeakTable<MqttServer, MqttServerTransport> Servers = [];

    /// <inheritdoc cref="MqttClientTransport.PublishManyAsync"/>
    /// <remarks>
    /// At most 1000 publishes are unacknowledged at a time over all calls for this client, or as many as the broker's Receive Maximum allows. The transport learns that limit
    /// when the client connects after the first call; until then it assumes 20, Mosquitto's default. To have the whole window from the start, call this method once with no messages before the
    /// client connects, or create a <see cref="MqttClientTransport"/> with <see cref="MqttClientTransportOptions.ReceiveMaximum"/>.
    /// </remarks>
    /// <param name="client">The application's client, which the application connects and disposes.</param>
    /// <param name="messages">
    /// The messages, each with its own QoS (0, 1 or 2) and retain flag. They and their memory must stay unchanged until the task has ended. After a cancellation their lists of properties may be changed, but
    /// not their payloads and correlation data, until the client is disconnected.
    /// </param>
    /// <param name="cancellationToken">Prevents further messages from being started; see the remarks of <see cref="MqttClientTransport.PublishManyAsync"/>.</param>
    public static ValueTask<PublishManyReport> PublishManyAsync(
        this IMqttClient client, ReadOnlyMemory<MqttApplicationMessage> messages, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(client);
        var transport = Clients.GetValue(client, static client => new MqttClientTransport(
            client, new MqttClientTransportOptions { ReceiveMaximum = client.IsConnected ? AssumedReceiveMaximum : null }));
        return transport.PublishManyAsync(messages, cancellationToken);
    }

    /// <inheritdoc cref="MqttServerTransport.InjectManyAsync"/>
    /// <remarks>
    /// It assumes that the server keeps 1000 messages for each client, as by default, and names <c>batchkit</c> as the sender. For other values, create a
    /// <see cref="MqttServerTransport"/> with <see cref="MqttServerTransportOptions.MaxPendingMessagesPerClient"/> and <see cref="MqttServerTransportOptions.SenderClientId"/>.
    /// </remarks>
    /// <param name="server">The application's server, which the application starts and disposes.</param>
    /// <param name="messages">
    /// The messages, each with its own QoS (0, 1 or 2) and retain flag. The server keeps references to them, to their payloads and to their lists for an unlimited time: never
    /// change them after the call.
    /// </param>
    /// <param name="cancellationToken">Prevents further messages from being injected. A message is injected whole or not at all.</param>
    public static ValueTask<InjectManyReport> InjectManyAsync(
        this MqttServer server, ReadOnlyMemory<MqttApplicationMessage> messages, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(server);
        var transport = Servers.GetValue(server, static server => new MqttServerTransport(server));
        return transport.InjectManyAsync(messages, cancellationToken);
    }
}
