using System.Buffers;
using System.Collections.Concurrent;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Microsoft.Extensions.ObjectPool;

namespace BatchKit;

/// <summary>Encodes values as messages and decodes them. <see cref="TypedOutput"/> writes with it, <see cref="MessageDispatcher"/> receives with it.</summary>
/// <remarks>Every member may be called from any thread. Sender and receiver need codecs with the same format and the same type names.</remarks>
public interface IMessageCodec
{
    /// <summary>Gets the header of a message that holds a <typeparamref name="T"/>: its <see cref="MessageHeader.Type"/> and <see cref="MessageHeader.ContentType"/>.</summary>
    /// <returns>The same header for every call, so that a write allocates none.</returns>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    MessageHeader GetHeader<T>();

    /// <summary>Appends a value's bytes.</summary>
    /// <param name="value">The value.</param>
    /// <param name="output">Where the bytes go; valid during the call only.</param>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    void Encode<T>(T value, IBufferWriter<byte> output);

    /// <summary>Reads a value.</summary>
    /// <param name="payload">The message's bytes; copy those that the value needs after the call.</param>
    /// <exception cref="Exception">Any exception means that the bytes are not a <typeparamref name="T"/>; a dispatcher refuses that message.</exception>
    T Decode<T>(ReadOnlySpan<byte> payload);
}

/// <summary>A codec for JSON. It uses the code that System.Text.Json's source generator writes, and no reflection.</summary>
public sealed class JsonMessageCodec : IMessageCodec
{
    private const string JsonContentType = "application/json";

    private readonly JsonSerializerContext _context;
    private readonly IReadOnlyDictionary<Type, string> _typeNames;
    private readonly ConcurrentDictionary<Type, MessageHeader> _headers = new();
    private readonly ConcurrentDictionary<string, Type> _typesByName = new(StringComparer.Ordinal);
    private readonly DefaultObjectPool<Utf8JsonWriter> _writers;

    /// <summary>Creates a codec for the types of one generated context.</summary>
    /// <param name="context">The context, such as <c>GameJson.Default</c>, with a <c>[JsonSerializable]</c> for each message type.</param>
    /// <param name="typeNames">The names of types in <see cref="MessageHeader.Type"/>; the name of a type that is not in it is its .NET name without the namespace.</param>
    public JsonMessageCodec(JsonSerializerContext context, IReadOnlyDictionary<Type, string>? typeNames = null)
    {
        ArgumentNullException.ThrowIfNull(context);
        _context = context;
        _typeNames = typeNames ?? new Dictionary<Type, string>();
        _writers = new DefaultObjectPool<Utf8JsonWriter>(new WriterPolicy(context.Options));
    }

    /// <inheritdoc/>
    /// <exception cref="NotSupportedException">The context has no <c>[JsonSerializable]</c> for the type.</exception>
    /// <exception cref="InvalidOperationException">Another type has the same name.</exception>
    public MessageHeader GetHeader<T>() => _headers.TryGetValue(typeof(T), out var header) ? header : AddHeader<T>();

    /// <inheritdoc/>
    public void Encode<T>(T value, IBufferWriter<byte> output)
    {
        var type = GetTypeInfo<T>();
        var writer = _writers.Get();
        try
        {
            writer.Reset(output);
            JsonSerializer.Serialize(writer, value, type);
        }
        finally
        {
            _writers.Return(writer);
        }
    }

    /// <inheritdoc/>
    /// <exception cref="JsonException">The bytes are not JSON of the type, or are <c>null</c>.</exception>
    public T Decode<T>(ReadOnlySpan<byte> payload) =>
        JsonSerializer.Deserialize(payload, GetTypeInfo<T>()) ?? throw new JsonException($"The payload is null and not a {typeof(T).Name}.");

    private MessageHeader AddHeader<T>()
    {
        GetTypeInfo<T>();
        var name = _typeNames.TryGetValue(typeof(T), out var registered) ? registered : typeof(T).Name;
        var owner = _typesByName.GetOrAdd(name, typeof(T));
        if (owner != typeof(T))
            throw new InvalidOperationException($"The message types {owner} and {typeof(T)} have the same name '{name}'. Pass another name for one of them to {nameof(JsonMessageCodec)}.");
        return _headers.GetOrAdd(typeof(T), new MessageHeader { Type = name, ContentType = JsonContentType });
    }

    private JsonTypeInfo<T> GetTypeInfo<T>() => _context.GetTypeInfo(typeof(T)) as JsonTypeInfo<T>
        ?? throw new NotSupportedException($"{_context.GetType().Name} does not know {typeof(T)}. Add [JsonSerializable(typeof({typeof(T).Name}))] to it.");

    private sealed class WriterPolicy(JsonSerializerOptions options) : PooledObjectPolicy<Utf8JsonWriter>
    {
        // What a pooled writer refers to, in the place of the last value's memory.
        private static readonly ArrayBufferWriter<byte> NoOutput = new();

        private readonly JsonWriterOptions _writerOptions = new()
        {
            Encoder = options.Encoder,
            Indented = options.WriteIndented,
            MaxDepth = options.MaxDepth,
        };

        public override Utf8JsonWriter Create() => new(NoOutput, _writerOptions);

        public override bool Return(Utf8JsonWriter obj)
        {
            obj.Reset(NoOutput);
            return true;
        }
    }
}
