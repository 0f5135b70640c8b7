using System.Runtime.CompilerServices;

namespace BatchKit;

/// <summary>Writing text, interpolated strings and control messages.</summary>
public static class OutputBufferExtensions
{
}
