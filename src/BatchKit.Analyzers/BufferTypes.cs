using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>The types of the core, as one compilation knows them.</summary>
internal sealed class BufferTypes
{
    private readonly INamedTypeSymbol _buffer;
    private readonly INamedTypeSymbol? _typedOutput;
    private readonly INamedTypeSymbol? _scope;
    private readonly INamedTypeSymbol? _writer;
    private readonly INamedTypeSymbol? _encoder;
    private readonly INamedTypeSymbol? _connectionHandler;

    private BufferTypes(Compilation compilation, INamedTypeSymbol buffer)
    {
        _buffer = buffer;
        _typedOutput = compilation.GetTypeByMetadataName("BatchKit.TypedOutput");
        _scope = compilation.GetTypeByMetadataName("BatchKit.BufferingScope");
        _writer = compilation.GetTypeByMetadataName("BatchKit.MessageWriter");
        _encoder = compilation.GetTypeByMetadataName("BatchKit.MessageEncoder`1");
        _connectionHandler = compilation.GetTypeByMetadataName("BatchKit.Broadcast.IConnectionHandler");
    }

    /// <summary>Null for a compilation that does not reference BatchKit.</summary>
    public static BufferTypes? TryGet(Compilation compilation) =>
        compilation.GetTypeByMetadataName("BatchKit.IOutputBuffer") is { } buffer ? new BufferTypes(compilation, buffer) : null;

    /// <summary>A call of a buffer or of a writer of values, also by an extension method.</summary>
    public bool IsBufferCall(IInvocationOperation call) => call.TargetMethod.ReceiverType() is { } receiver && (receiver.IsOrImplements(_buffer) || IsTypedOutput(receiver));

    public bool IsTypedOutput(ITypeSymbol? type) => SymbolEqualityComparer.Default.Equals(type, _typedOutput);

    /// <summary>A scope, or a writer, which has one.</summary>
    public bool IsScope(ITypeSymbol? type) => SymbolEqualityComparer.Default.Equals(type, _scope) || IsWriter(type);

    public bool IsWriter(ITypeSymbol? type) => _writer is not null && SymbolEqualityComparer.Default.Equals(type, _writer);

    public bool IsEncoder(ITypeSymbol? type) => SymbolEqualityComparer.Default.Equals(type?.OriginalDefinition, _encoder);

    public bool IsConnectionHandler(ITypeSymbol? type) => _connectionHandler is not null && type?.IsOrImplements(_connectionHandler) == true;

    /// <summary>A call that opens a scope.</summary>
    public bool IsOpening(IInvocationOperation call) => call.TargetMethod.Name is "BeginBufferingScope" or "BeginWriting" && IsScope(call.TargetMethod.ReturnType) && IsBufferCall(call);

    /// <summary>A call that writes a message or opens a scope takes a handle or a name; an ambient scope takes none.</summary>
    public static IArgumentOperation? HandleOf(IInvocationOperation call) => call.Arguments.FirstOrDefault(argument => argument.Parameter?.Name is "handle" or "name");
}
