using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using BatchKit.Testing;
using BatchKit.Tests.Buffering;
using BatchKit.Tests.Support;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests;

[Collection(nameof(MeasuresMemory))]
public sealed class TypedOutputTests : IAsyncDisposable
{
    private readonly OutputHandle _player = Some.Connection();
    private readonly CollectingTransport _arrived = new();
    private readonly JsonMessageCodec _codec = new(SomeJson.Default);
    private readonly OutputBuffer _buffer;
    private readonly TypedOutput _output;

    public TypedOutputTests()
    {
        _buffer = new OutputBuffer(_arrived, timeProvider: new ManualTimeProvider());
        _output = new TypedOutput(_buffer, _codec);
    }

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public async Task A_value_is_one_message_of_JSON_that_names_its_type()
    {
        _output.Write(_player, new ChatLine("Ana", "Hi"));
        Assert.True(_output.TryWrite(_player, new Moved(Room: 3, Count: 2)));
        await _output.WriteAsync(_player, new Moved(Room: 4, Count: 1), cancellationToken: TestContext.Current.CancellationToken);
        await _buffer.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["""{"from":"Ana","text":"Hi"}""", """{"room":3,"count":2}""", """{"room":4,"count":1}"""], _arrived.Texts);
        Assert.Equal(["ChatLine", "Moved", "Moved"], _arrived.Messages.Select(message => message.Header?.Type));
        Assert.All(_arrived.Messages, message => Assert.Equal("application/json", message.Header?.ContentType));
    }

    [Fact]
    public async Task A_header_keeps_what_it_says_and_gets_the_type()
    {
        var excluded = Some.Connection();

        _output.Write(_player, new Moved(1, 1), new MessageHeader { Key = "key", Kind = MessageKind.Prompt, ExcludedConnections = [excluded], Properties = [new("a", "b")] });
        _output.Write(_player, new Moved(1, 1), new MessageHeader { ContentType = "application/vnd.moved+json" });
        await _buffer.FlushAsync(TestContext.Current.CancellationToken);

        var headers = _arrived.Messages.Select(message => message.Header!).ToArray();
        Assert.Equivalent(
            new MessageHeader { Key = "key", Kind = MessageKind.Prompt, ExcludedConnections = [excluded], Properties = [new("a", "b")], Type = "Moved", ContentType = "application/json" },
            headers[0], strict: true);
        Assert.Equal(("Moved", "application/vnd.moved+json"), (headers[1].Type, headers[1].ContentType));
    }

    [Fact]
    public async Task A_header_with_a_type_is_used_as_it_is()
    {
        var header = new MessageHeader { Type = "moved.v2", Key = "key" };

        _output.Write(_player, new Moved(1, 1), header);
        await _buffer.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Same(header, _arrived.Messages[0].Header);
    }

    [Fact]
    public async Task A_typed_write_allocates_nothing_beyond_the_codec()
    {
        await using var buffer = new OutputBuffer(new CountingTransport(), timeProvider: new ManualTimeProvider());
        var output = new TypedOutput(buffer, new TextCodec());
        var json = new TypedOutput(buffer, _codec);
        var line = new ChatLine("Ana", "Hello there");

        Assert.Equal(0, Allocations.Least(() => output.Write(_player, line)));
        Assert.Equal(0, Allocations.Least(() => output.TryWrite(_player, line)));
        Assert.Equal(0, Allocations.Least(() => output.WriteAsync(_player, line).GetAwaiter().GetResult()));
        Assert.Equal(0, Allocations.Least(() => json.Write(_player, line)));
        Assert.Equal(0, Allocations.Least(() => json.Write(_player, new Moved(1, 2))));
    }

    [Fact]
    public async Task A_typed_write_that_waits_keeps_its_bytes_while_its_thread_encodes_others()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = 2048, MaxMessageBytes = 2000 }, timeProvider: new ManualTimeProvider());
        var output = new TypedOutput(buffer, _codec);
        buffer.Write(Some.Connection(), new byte[1900]);
        await stalled.EnteredAsync();

        var first = output.WriteAsync(_player, new ChatLine("first", new string('a', 200)), cancellationToken: TestContext.Current.CancellationToken);
        var second = output.WriteAsync(_player, new ChatLine("second", new string('b', 200)), cancellationToken: TestContext.Current.CancellationToken);
        Assert.False(output.TryWrite(_player, new ChatLine("third", new string('c', 200))));
        var waited = !first.IsCompleted && !second.IsCompleted;
        stalled.Release();
        await first.WithinDeadline();
        await second.WithinDeadline();
        await buffer.FlushAsync(TestContext.Current.CancellationToken);

        Assert.True(waited);
        Assert.Equal(["first", "second"], _arrived.MessagesFor(_player).Select(message => _codec.Decode<ChatLine>(message.Payload).From).Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task A_value_that_fails_to_encode_leaves_nothing_behind()
    {
        Assert.Throws<InvalidOperationException>(() => new TypedOutput(_buffer, new TextCodec()).Write(_player, new Moved(1, 1)));

        _output.Write(_player, new Moved(1, 1));
        await _buffer.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["""{"room":1,"count":1}"""], _arrived.Texts);
    }

    [Fact]
    public void A_codec_keeps_no_memory_that_it_has_written_to()
    {
        var output = Encode(_codec);

        GC.Collect();

        Assert.False(output.TryGetTarget(out _));
    }

    [Fact]
    public void A_type_that_the_context_does_not_know_is_named()
    {
        var exception = Assert.Throws<NotSupportedException>(() => _output.Write(_player, new Unregistered(1)));

        Assert.Contains("SomeJson", exception.Message, StringComparison.Ordinal);
        Assert.Contains("[JsonSerializable(typeof(Unregistered))]", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Two_types_with_one_name_are_refused_until_one_is_given_another()
    {
        var named = new JsonMessageCodec(SomeJson.Default, new Dictionary<Type, string> { [typeof(Other.ChatLine)] = "other-line" });
        _codec.GetHeader<ChatLine>();
        named.GetHeader<ChatLine>();

        var exception = Assert.Throws<InvalidOperationException>(() => _codec.GetHeader<Other.ChatLine>());

        Assert.Contains("'ChatLine'", exception.Message, StringComparison.Ordinal);
        Assert.Equal("other-line", named.GetHeader<Other.ChatLine>().Type);
    }

    [Fact]
    public void JSON_of_null_is_no_value() => Assert.Throws<JsonException>(() => _codec.Decode<ChatLine>("null"u8));

    [Fact]
    public async Task Registered_buffers_have_typed_outputs_of_their_own()
    {
        var services = new ServiceCollection();
        services.AddBatchKit().UseLocal(_ => _arrived).UseJson(SomeJson.Default);
        services.AddBatchKit("game").UseLocal(_ => _arrived).UseCodec(new TextCodec());
        await using var provider = services.BuildServiceProvider();

        var unnamed = provider.GetRequiredService<TypedOutput>();
        var named = provider.GetRequiredKeyedService<TypedOutput>("game");

        Assert.Same(provider.GetRequiredService<IOutputBuffer>(), unnamed.Buffer);
        Assert.Same(provider.GetRequiredKeyedService<IOutputBuffer>("game"), named.Buffer);
        Assert.IsType<JsonMessageCodec>(provider.GetRequiredService<IMessageCodec>());
        Assert.IsType<TextCodec>(provider.GetRequiredKeyedService<IMessageCodec>("game"));
    }

    [Fact]
    public void A_codec_is_refused_twice()
    {
        var builder = new ServiceCollection().AddBatchKit("game").UseJson(SomeJson.Default);

        var exception = Assert.Throws<InvalidOperationException>(() => builder.UseCodec(new TextCodec()));

        Assert.Contains("'game' already has a codec", exception.Message, StringComparison.Ordinal);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static WeakReference<ArrayBufferWriter<byte>> Encode(JsonMessageCodec codec)
    {
        var output = new ArrayBufferWriter<byte>();
        codec.Encode(new ChatLine("Ana", "Hi"), output);
        Assert.NotEqual(0, output.WrittenCount);
        return new WeakReference<ArrayBufferWriter<byte>>(output);
    }

    /// <summary>Knows lines of chat only, and allocates nothing.</summary>
    private sealed class TextCodec : IMessageCodec
    {
        private readonly MessageHeader _header = new() { Type = "line" };

        public MessageHeader GetHeader<T>() => _header;

        public void Encode<T>(T value, IBufferWriter<byte> output)
        {
            output.Write("text: "u8);
            if (value is not ChatLine line)
                throw new InvalidOperationException("It fails after it has written.");
            output.Advance(Encoding.UTF8.GetBytes(line.Text, output.GetSpan(line.Text.Length * 3)));
        }

        public T Decode<T>(ReadOnlySpan<byte> payload) => throw new NotSupportedException();
    }
}
