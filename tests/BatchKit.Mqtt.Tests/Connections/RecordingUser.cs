using System.Threading.Channels;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Uses each connection until it ends, and keeps what failed.</summary>
internal sealed class RecordingUser : IConnectionUser
{
    private readonly Channel<MqttConnectException> _failures = Channel.CreateUnbounded<MqttConnectException>();
    private int _served;

    /// <summary>Thrown in place of serving.</summary>
    public Exception? Defect { get; set; }

    /// <summary>Thrown when a connection has ended.</summary>
    public Exception? DefectAtEnd { get; set; }

    public int Served => Volatile.Read(ref _served);

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        Interlocked.Increment(ref _served);
        if (Defect is { } defect)
        {
            Defect = null;
            throw defect;
        }

        connection.Open(source: null);
        var reason = await connection.RunAsync(new RecordingHandler(), cancellationToken);
        return DefectAtEnd is null ? reason : throw DefectAtEnd;
    }

    public void ConnectFailed(MqttConnectException failure) => _failures.Writer.TryWrite(failure);

    public Task<MqttConnectException> NextFailureAsync() => _failures.Reader.ReadAsync().WithinDeadline();
}
