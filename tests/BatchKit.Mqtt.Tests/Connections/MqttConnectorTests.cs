using System.Text;
using BatchKit.Mqtt.Connections;
using BatchKit.Testing;
using BatchKit.TestServers.Network;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>What an attempt to connect sends, and what it says when it fails.</summary>
public class MqttConnectorTests : ConnectionTests
{
    [Fact]
    public async Task A_port_where_nothing_listens_is_named()
    {
        var port = FreePort.Take(1)[0];

        var failure = await FailAsync(new MqttOptions { Server = new Uri($"mqtt://127.0.0.1:{port}") });

        Assert.Equal($"The broker at mqtt://127.0.0.1:{port} can't be reached: the connection was refused, so nothing listens there. Start the broker, or set Server to its address.", failure.Message);
        Assert.False(failure.IsRefusal);
    }

    [Fact]
    public async Task A_broker_that_never_answers_is_given_up_after_the_connect_timeout()
    {
        var time = new ManualTimeProvider();
        var connecting = CreateConnector(ConnectionSome.Options(Broker), time).ConnectAsync(cleanStart: false, CancellationToken.None);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();

        time.Advance(TimeSpan.FromSeconds(5));
        var failure = await Assert.ThrowsAsync<MqttConnectException>(() => connecting.WithinDeadline());

        Assert.Contains("did not answer CONNECT within 00:00:05", failure.Message, StringComparison.Ordinal);
        Assert.False(failure.IsRefusal);
        Assert.Empty(await broker.ReadToEndAsync());
    }

    [Fact]
    public async Task A_stop_while_connecting_is_no_failure()
    {
        using var stop = new CancellationTokenSource();
        var connecting = CreateConnector(ConnectionSome.Options(Broker)).ConnectAsync(cleanStart: false, stop.Token);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();

        await stop.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => connecting.WithinDeadline());
    }

    [Theory]
    [InlineData(new byte[0], "closed the connection without an answer: it may be at its limit of connections (max_connections at Mosquitto)", false)]
    [InlineData(new byte[] { 0x15, 3, 3, 0, 2, 2, 10 }, "speaks TLS on this port", true)]
    [InlineData(new byte[] { 0x30, 3, 0, 1, 0x74 }, "first packet is Publish", false)]
    [InlineData(new byte[] { 0x20, 3, 2, 0, 0 }, "no valid answer", false)]
    public async Task An_answer_that_is_none_is_explained(byte[] answer, string words, bool isRefusal)
    {
        var failing = FailAsync(ConnectionSome.Options(Broker));
        using (var broker = await Broker.AcceptAsync())
        {
            await broker.ReadAsync();
            await broker.WriteAsync(answer);
        }

        var failure = await failing;

        Assert.Contains(words, failure.Message, StringComparison.Ordinal);
        Assert.Contains($"mqtt://127.0.0.1:{Broker.Port}", failure.Message, StringComparison.Ordinal);
        Assert.Equal(isRefusal, failure.IsRefusal);
    }

    [Fact]
    public async Task An_HTTP_server_is_recognised()
    {
        var failure = await FailAsync(ConnectionSome.Options(Broker), "HTTP/1.1 400 Bad Request\r\n\r\n"u8.ToArray());

        Assert.Contains("speaks HTTP on this port", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttVersion.V5, 0x86, MqttReasonCode.BadUserNameOrPassword, true)]
    [InlineData(MqttVersion.V5, 0x87, MqttReasonCode.NotAuthorized, true)]
    [InlineData(MqttVersion.V5, 0x84, MqttReasonCode.UnsupportedProtocolVersion, true)]
    [InlineData(MqttVersion.V5, 0x88, MqttReasonCode.ServerUnavailable, false)]
    [InlineData(MqttVersion.V5, 0x9F, MqttReasonCode.ConnectionRateExceeded, false)]
    [InlineData(MqttVersion.V311, 5, MqttReasonCode.NotAuthorized, true)]
    [InlineData(MqttVersion.V311, 3, MqttReasonCode.ServerUnavailable, false)]
    public async Task A_no_is_told_with_its_code(MqttVersion version, byte code, MqttReasonCode expected, bool isRefusal)
    {
        var failure = await FailAsync(ConnectionSome.Options(Broker, version), version == MqttVersion.V5 ? [0x20, 8, 0, code, 5, 0x1F, 0, 2, (byte)'n', (byte)'o'] : [0x20, 2, 0, code]);

        Assert.Contains($"{expected} (0x{(int)expected:X2})", failure.Message, StringComparison.Ordinal);
        Assert.Equal(version == MqttVersion.V5, failure.Message.Contains("'no'", StringComparison.Ordinal));
        Assert.Equal((expected, isRefusal), (failure.ReasonCode, failure.IsRefusal));
    }

    [Theory]
    [InlineData(0x9C, false)]
    [InlineData(0x9D, true)]
    public async Task The_server_that_a_broker_names_instead_of_itself_is_told(byte code, bool isRefusal)
    {
        var failure = await FailAsync(ConnectionSome.Options(Broker), 0x20, 8, 0, code, 5, 0x1C, 0, 2, (byte)'b', (byte)'2');

        Assert.Contains("names another server: 'b2'. Set Server to it.", failure.Message, StringComparison.Ordinal);
        Assert.Equal(isRefusal, failure.IsRefusal);
    }

    [Fact]
    public async Task A_broker_that_asks_for_enhanced_authentication_is_a_refusal_that_names_it()
    {
        var failure = await FailAsync(ConnectionSome.Options(Broker), 0xF0, 2, 0x18, 0);

        Assert.Contains("enhanced authentication (AUTH)", failure.Message, StringComparison.Ordinal);
        Assert.Equal((MqttReasonCode.BadAuthenticationMethod, true), (failure.ReasonCode, failure.IsRefusal));
    }

    [Fact]
    public async Task A_broker_that_only_knows_MQTT_3_is_recognised()
    {
        var failure = await FailAsync(ConnectionSome.Options(Broker), 0x20, 2, 0, 1);

        Assert.Contains("does not support this Version", failure.Message, StringComparison.Ordinal);
        Assert.True(failure.IsRefusal);
    }

    [Fact]
    public async Task Credentials_are_asked_for_at_each_attempt()
    {
        var asked = 0;
        var options = ConnectionSome.Options(Broker);
        options.Password = "not this one";
        options.CredentialsProvider = _ => ValueTask.FromResult(new MqttCredentials("somebody", Encoding.UTF8.GetBytes($"token-{++asked}")));
        var connector = CreateConnector(options);

        var connects = new List<string>();
        for (var attempt = 0; attempt < 2; attempt++)
        {
            var connecting = connector.ConnectAsync(cleanStart: false, CancellationToken.None);
            using var broker = await Broker.AcceptAsync();
            connects.Add(Encoding.UTF8.GetString(await broker.ReadAsync()));
            await broker.WriteAsync(ConnectionSome.Connack);
            await (await connecting.WithinDeadline()).DisposeAsync();
        }

        Assert.EndsWith("somebody\0\u0007token-1", connects[0], StringComparison.Ordinal);
        Assert.EndsWith("somebody\0\u0007token-2", connects[1], StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_provider_that_fails_is_named_and_its_words_are_not_repeated()
    {
        var options = ConnectionSome.Options(Broker);
        options.CredentialsProvider = static _ => throw new InvalidOperationException("the secret is hunter2");

        var failure = await FailAsync(options);

        Assert.Contains("CredentialsProvider failed with InvalidOperationException", failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("hunter2", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_provider_that_does_not_answer_is_given_up()
    {
        var time = new ManualTimeProvider();
        var options = ConnectionSome.Options(Broker);
        options.CredentialsProvider = static _ => new ValueTask<MqttCredentials>(new TaskCompletionSource<MqttCredentials>().Task);
        var connecting = CreateConnector(options, time).ConnectAsync(cleanStart: false, CancellationToken.None);

        time.Advance(TimeSpan.FromSeconds(5));
        var failure = await Assert.ThrowsAsync<MqttConnectException>(() => connecting.WithinDeadline());

        Assert.Contains("CredentialsProvider did not answer within", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_provider_that_blocks_its_thread_and_its_cancellation_is_given_up()
    {
        using var released = new ManualResetEventSlim();
        var asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var time = new ManualTimeProvider();
        var options = ConnectionSome.Options(Broker);
        options.CredentialsProvider = token =>
        {
            token.Register(() => released.Wait(Deadline.Time, CancellationToken.None));
            asked.SetResult();
            released.Wait(Deadline.Time, CancellationToken.None);
            return new ValueTask<MqttCredentials>(new MqttCredentials("late", default));
        };
        var connecting = CreateConnector(options, time).ConnectAsync(cleanStart: false, CancellationToken.None);
        await asked.Task.WithinDeadline();

        time.Advance(TimeSpan.FromSeconds(5));
        var failure = await Assert.ThrowsAsync<MqttConnectException>(() => connecting.WithinDeadline());

        Assert.Contains("CredentialsProvider did not answer within", failure.Message, StringComparison.Ordinal);
        released.Set();
    }

    [Fact]
    public async Task What_CONNECT_cannot_say_is_a_refusal()
    {
        var options = ConnectionSome.Options(Broker);
        options.UserName = "some\0body";

        var failure = await FailAsync(options);

        Assert.Contains("CONNECT can't be written", failure.Message, StringComparison.Ordinal);
        Assert.True(failure.IsRefusal);
    }

    [Theory]
    [InlineData(MqttVersion.V5, 300, false, 0x00)]
    [InlineData(MqttVersion.V5, 300, true, 0x02)]
    [InlineData(MqttVersion.V311, 300, false, 0x00)]
    [InlineData(MqttVersion.V311, 0, false, 0x02)]
    public async Task A_session_is_asked_for_as_the_version_can(MqttVersion version, int expirySeconds, bool cleanStart, byte flags)
    {
        var options = ConnectionSome.Options(Broker, version);
        options.SessionExpiry = TimeSpan.FromSeconds(expirySeconds);
        var connecting = CreateConnector(options).ConnectAsync(cleanStart, CancellationToken.None);
        using var broker = await Broker.AcceptAsync();
        var connect = await broker.ReadAsync();
        await broker.WriteAsync(version == MqttVersion.V5 ? ConnectionSome.Connack : ConnectionSome.Connack311);
        await (await connecting.WithinDeadline()).DisposeAsync();

        Assert.Equal(flags, connect[9]);
    }

    [Fact]
    public async Task A_clean_start_of_a_session_that_lasts_takes_MQTT_3_two_connections()
    {
        var options = ConnectionSome.Options(Broker, MqttVersion.V311);
        var connecting = CreateConnector(options).ConnectAsync(cleanStart: true, CancellationToken.None);
        var flags = new List<byte>();

        for (var connection = 0; connection < 2; connection++)
        {
            using var broker = await Broker.AcceptAsync();
            flags.Add((await broker.ReadAsync())[9]);
            await broker.WriteAsync(ConnectionSome.Connack311);
            if (connection == 0)
                Assert.Equal([0xE0, 0], await broker.ReadToEndAsync());
            else
                await (await connecting.WithinDeadline()).DisposeAsync();
        }

        Assert.Equal([0x02, 0x00], flags);
    }

    [Fact]
    public async Task The_second_of_these_connections_waits_until_the_broker_has_closed_the_first()
    {
        var connecting = CreateConnector(ConnectionSome.Options(Broker, MqttVersion.V311), new ManualTimeProvider()).ConnectAsync(cleanStart: true, CancellationToken.None);
        var first = await Broker.WelcomeAsync(MqttVersion.V311);
        var second = Broker.WelcomeAsync(MqttVersion.V311);
        var goodbye = await first.ReadToEndAsync();
        var isEarly = second.IsCompleted;

        first.Dispose();
        using var broker = await second;
        await (await connecting.WithinDeadline()).DisposeAsync();

        Assert.Equal([0xE0, 0], goodbye);
        Assert.False(isEarly);
    }

    /// <summary>What an attempt says when the broker answers CONNECT with these bytes, and does not close.</summary>
    private async Task<MqttConnectException> FailAsync(MqttOptions options, params byte[] answer)
    {
        var failing = FailAsync(options);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(answer);
        return await failing;
    }

    private Task<MqttConnectException> FailAsync(MqttOptions options) =>
        Assert.ThrowsAsync<MqttConnectException>(() => CreateConnector(options).ConnectAsync(cleanStart: false, CancellationToken.None).WithinDeadline());
}

/// <summary>The same over a connection with a thread of its own.</summary>
public sealed class BlockingMqttConnectorTests : MqttConnectorTests
{
    protected override bool MayBlock => true;
}
