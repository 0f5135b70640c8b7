using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Callbacks that throw, and rights that are taken away while both ends run: the fault says so, and when that is over everything that was accepted arrives.</summary>
public sealed class MqttSurroundingsTests
{
    private const string User = "somebody";
    private const string Password = "right";
    private const int ConnectFailed = 221;

    private readonly CollectingTransport _arrived = new();
    private readonly LogCollector _log = new();

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(0)]
    public async Task A_credentials_provider_that_throws_at_one_call_ends_nothing(int failing)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        failing = failing > 0 ? failing : Random.Shared.Next(3, 9);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = User, Password = Password });
        var calls = 0;

        await GoOnAsync("mqtt", server.Port, () => Volatile.Read(ref calls) > failing, options => options.CredentialsProvider = _ =>
            Interlocked.Increment(ref calls) == failing ? throw new NotSupportedException("The provider fails.") : ValueTask.FromResult(new MqttCredentials(User, Some.Bytes(Password))));

        Assert.Contains("CredentialsProvider failed with NotSupportedException", _log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(0)]
    public async Task A_certificate_callback_that_throws_at_one_call_ends_nothing(int failing)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        failing = failing > 0 ? failing : Random.Shared.Next(3, 9);
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Certificate = certificate });
        var calls = 0;

        await GoOnAsync("mqtts", server.TlsPort, () => Volatile.Read(ref calls) > failing, options => options.ValidateServerCertificate = (_, _, _, _) =>
            Interlocked.Increment(ref calls) == failing ? throw new NotSupportedException("The callback fails.") : true);

        Assert.Contains("ValidateServerCertificate failed with NotSupportedException", _log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_password_that_is_changed_while_both_ends_run_is_a_fault_that_says_so_until_it_is_back()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = User, Password = Password });
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = Options("mqtt", proxy.Port, static options => (options.UserName, options.Password) = (User, Password));
        await using var receiver = await StartReceiverAsync(options);
        await using var transport = CreateTransport(options);
        await using var output = CreateBuffer(transport);
        var handle = Some.Connection(Node);
        output.Write(handle, "line 0"u8);
        await _arrived.WaitForMessagesAsync(1);

        server.ChangePassword("changed");
        // The broker reads its files some time after the signal, and asks for a password when a client connects.
        await Until.TrueAsync(() =>
        {
            proxy.ResetAll();
            return IsRefused(transport.Fault) && IsRefused(receiver.Fault);
        });
        output.Write(handle, "line 1"u8);
        output.Write(handle, "line 2"u8);
        server.ChangePassword(Password);
        await _arrived.WaitForMessagesAsync(3);

        await output.FlushAsync().WithinDeadline();
        Assert.Equal(Some.Lines(3), _arrived.Texts);
        Assert.Equal(3, output.GetStatistics().AcknowledgedMessages);

        // A broker may send what waits before it answers the subscriptions.
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task A_right_to_publish_that_is_taken_away_refuses_what_needs_it_with_the_reason_and_the_rest_arrives()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Access = ["topic readwrite #"] });
        var topics = Some.Name("topics");
        await using var transport = CreateTransport(new MqttOptions { Server = server.Address });
        await using var receiver = await StartReceiverAsync(MqttSome.Below(server, topics));
        await PublishAsync(transport, topics, 0);

        server.ChangeAccess("topic read #", $"topic readwrite {topics}/open");
        MqttPublishReport report = default;
        await Until.TrueAsync(async () => !(report = await transport.PublishManyAsync(new[] { Message($"{topics}/closed", "may be refused") })).IsSuccess);
        var mixed = await transport.PublishManyAsync(new[] { Message($"{topics}/open", "line 1"), Message($"{topics}/closed", "refused"), Message($"{topics}/open", "line 2") });
        server.ChangeAccess("topic readwrite #");
        await Until.TrueAsync(async () => (await transport.PublishManyAsync(new[] { Message($"{topics}/closed", "may be refused") })).IsSuccess);
        await PublishAsync(transport, topics, 3);

        await Until.TrueAsync(() => _arrived.Texts.Contains("line 3", StringComparer.Ordinal));
        Assert.Equal(Some.Lines(4), _arrived.Texts.Where(static text => text.StartsWith("line", StringComparison.Ordinal)));
        Assert.DoesNotContain("refused", _arrived.Texts);
        Assert.Equal(MqttReasonCode.NotAuthorized, report[0].ReasonCode);
        Assert.Equal([true, false, true], Enumerable.Range(0, mixed.Count).Select(index => mixed[index].IsSuccess));
        Assert.Null(transport.Fault);
    }

    private static bool IsRefused(string? fault) => fault?.Contains("refused the connection", StringComparison.Ordinal) == true;

    private static MqttMessage Message(string topic, string text) => new(topic, Some.Bytes(text));

    private static async Task PublishAsync(MqttTransport transport, string topics, int line) =>
        Assert.True((await transport.PublishManyAsync(new[] { Message($"{topics}/open", $"line {line}") })).IsSuccess);

    private static MqttOptions Options(string scheme, int port, Action<MqttOptions> configure) => MqttSome.Options(new Uri($"{scheme}://127.0.0.1:{port}"), options =>
    {
        options.EnvelopePrefix = Some.Name("frames");
        options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        options.MaxReconnectDelay = TimeSpan.FromMilliseconds(100);
        configure(options);
    });

    private static OutputBuffer CreateBuffer(MqttTransport transport) => new(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(10), MaxRetryDelay = TimeSpan.FromMilliseconds(100) });

    /// <summary>Sends lines, and breaks the connections behind each, until the callback has thrown and was called again: all lines arrive.</summary>
    private async Task GoOnAsync(string scheme, int port, Func<bool> hasGoneOn, Action<MqttOptions> configure)
    {
        await using var proxy = TcpProxy.Start("127.0.0.1", port);
        var options = Options(scheme, proxy.Port, configure);
        await using var receiver = await StartReceiverAsync(options);
        await using var transport = CreateTransport(options);
        await using var output = CreateBuffer(transport);
        var handle = Some.Connection(Node);
        // Before it has subscribed once, the broker keeps nothing for it.
        await Until.TrueAsync(() => receiver.Fault is null);

        var lines = 0;
        for (var isOver = false; !isOver; lines++)
        {
            isOver = hasGoneOn();
            output.Write(handle, Some.Bytes($"line {lines}"));
            await _arrived.WaitForMessagesAsync(lines + 1);
            var connections = proxy.AcceptedConnections;
            proxy.ResetAll();
            await Until.TrueAsync(() => proxy.AcceptedConnections > connections);
        }

        await output.FlushAsync().WithinDeadline();
        Assert.Equal(Some.Lines(lines), _arrived.Texts);
        Assert.True(_log.Count(ConnectFailed) > 0);
        await Until.TrueAsync(() => receiver.Fault is null && transport.Fault is null);
    }

    private MqttTransport CreateTransport(MqttOptions options) => new(options, timeProvider: null, new Logger<MqttTransport>(_log));

    private async Task<MqttReceiver> StartReceiverAsync(MqttOptions options)
    {
        var batches = new BatchReceiver(_arrived, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), FilterDuplicates = options.EnvelopePrefix is not null });
        var receiver = new MqttReceiver(options, Node, batches, timeProvider: null, new Logger<MqttReceiver>(_log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }
}
