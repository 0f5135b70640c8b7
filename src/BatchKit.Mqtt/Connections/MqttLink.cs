using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Connections;

/// <summary>Keeps a transport or receiver connected: connects, lets its user serve, and connects again after a pause, until it is stopped.</summary>
internal sealed class MqttLink : IAsyncDisposable
{
    /// <summary>Makes a link that is not started.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="purpose">What the log calls it: transport or receiver.</param>
    /// <param name="clientId">The client id.</param>
    /// <param name="sessionExpiry">In CONNECT.</param>
    /// <param name="user">Who uses the connections.</param>
    /// <param name="timeProvider">The time.</param>
    /// <param name="logger">Where it logs.</param>
    public MqttLink(
        MqttOptions options, string purpose, string clientId, TimeSpan sessionExpiry, IConnectionUser user, TimeProvider timeProvider, ILogger logger) =>
        throw new NotSupportedException();

    /// <summary>The broker for a person, without secrets.</summary>
    public string Target => throw new NotSupportedException();

    /// <summary>Why there is no connection, for a person and without secrets; null while there is one.</summary>
    public string? Fault => throw new NotSupportedException();

    /// <summary>Starts to connect, if that has not been done. The task completes after the first attempt, whatever came of it.</summary>
    public Task StartAsync() => throw new NotSupportedException();

    /// <summary>Ends the connection in good order and connects no more; completes when its user serves no more.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}
